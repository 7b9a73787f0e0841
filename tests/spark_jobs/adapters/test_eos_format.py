"""The sink as a format of Spark's: planner, tasks and committer as Spark makes them, by pickling, into SQLite."""

from __future__ import annotations

import copy
import json
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from connectors.spec import Spec
from eos.errors import FencedError, PlanOverwrittenError, PrepareError, SpecError
from spark_jobs.adapters import stream_writer
from spark_jobs.adapters.formats import EosSink, eos_sink
from spark_jobs.adapters.stream_writer import PlanningError, StreamWriter, Written
from spark_jobs.batch import writing
from spark_jobs.observe.head_reader import read_seen
from spark_jobs.observe.history.store import History
from spark_jobs.run import recovery
from twophase.messages import HeadSnapshot

_SCHEMA = StructType([StructField("text", StringType()), StructField("id", LongType())])
"""In another order than the table's."""
_SPEC = """\
pipeline: formatted
checkpoint: {location: ./memory}
sinks:
  - {name: table, connector: sqlite, path: ./t.db, table: rows, commit: write-ahead-log}
"""


@dataclass
class _Task:
    """What Spark says to a task of it."""

    batch: int
    number: int

    def getLocalProperty(self, key: str) -> str:  # noqa: N802 Spark's name
        assert key == "streaming.sql.batchId"
        return str(self.batch)

    def partitionId(self) -> int:  # noqa: N802 Spark's name
        return self.number

    def taskAttemptId(self) -> int:  # noqa: N802 Spark's name
        return 100 * self.batch + self.number


class _Query:
    """Spark, as far as a writer sees it: its checkpoint folder, and calls in the order of a batch."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.sink = eos_sink()
        self._monkeypatch = monkeypatch
        (folder / "spec.yaml").write_text(_SPEC)
        (folder / "spark" / "offsets").mkdir(parents=True)
        (folder / "spark" / "commits").mkdir()
        (folder / "spark" / "metadata").write_text('{"id": "q1"}')
        with sqlite3.connect(folder / "t.db") as database:
            database.execute("CREATE TABLE rows (id INTEGER, text TEXT)")

    def writer(self, **changed: str) -> StreamWriter:
        options = {"spec": str(self.folder / "spec.yaml"), "checkpointLocation": f"file://{self.folder}/spark"}
        made = self.sink({**options, **changed}).streamWriter(_SCHEMA, overwrite=False)
        assert isinstance(made, StreamWriter)
        return made

    def started_again(self) -> _Query:
        """By another process, on the same checkpoint."""
        other = copy.copy(self)
        other.sink = eos_sink()
        return other

    def plan(self, number: int) -> bytes:
        """What a task gets."""
        (self.folder / "spark" / "offsets" / str(number)).write_text(f"v1\n{{}}\n{json.dumps({'at': number})}")
        writer = self.writer()
        sent = pickle.dumps(writer)
        assert pickle.dumps(writer) == sent, "Spark pickles it twice"
        return sent

    def run(self, planned: bytes, number: int, tasks: Sequence[Sequence[int]]) -> list[Written]:
        """The tasks' acknowledgements."""
        return [self._task(planned, _Task(number, task), ids) for task, ids in enumerate(tasks)]

    def done(self, number: int) -> None:
        (self.folder / "spark" / "commits" / str(number)).write_text("v1\n{}")

    def ids(self) -> list[int]:
        with sqlite3.connect(self.folder / "t.db") as database:
            return [row[0] for row in database.execute("SELECT id FROM rows ORDER BY id")]

    def _task(self, planned: bytes, context: _Task, ids: Sequence[int]) -> Written:
        rows = pa.RecordBatch.from_arrays(
            [pa.array([f"row {each}" for each in ids], pa.string()), pa.array(ids, pa.int64())],
            names=_SCHEMA.names,
        )
        for module in (stream_writer, writing):
            self._monkeypatch.setattr(module.TaskContext, "get", lambda: context)
        writer: StreamWriter = pickle.loads(planned)
        return writer.write(iter([rows]))


@pytest.fixture
def query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Query:
    return _Query(tmp_path, monkeypatch)


def test_rows_are_visible_when_commit_returns_and_not_before(query: _Query) -> None:
    for number in range(3):
        messages = query.run(query.plan(number), number, [[number * 10], [number * 10 + 1], []])
        assert len(query.ids()) == 2 * number
        query.writer().commit([*messages], number)
        assert len(query.ids()) == 2 * number + 2
        query.done(number)
    assert query.ids() == [0, 1, 10, 11, 20, 21]


def test_r6_each_batch_requires_a_durable_head(query: _Query, monkeypatch: pytest.MonkeyPatch) -> None:
    required: list[str] = []
    monkeypatch.setattr(recovery, "require_head", lambda spec: required.append(spec.pipeline))
    for number in range(3):
        query.writer().commit([*query.run(query.plan(number), number, [[number]])], number)
        query.done(number)
    assert len(required) == 3
    successor = query.started_again()
    successor.writer().commit([*successor.run(successor.plan(3), 3, [[3]])], 3)
    assert len(required) == 4
    assert query.ids() == [0, 1, 2, 3]


def test_a_batch_that_spark_forgot_is_written_once(query: _Query) -> None:
    """The driver died after `commit`, before Spark wrote it down."""
    query.writer().commit([*query.run(query.plan(0), 0, [[1], [2]])], 0)
    again = query.run(query.plan(0), 0, [[1], [2]])
    assert [each.committables for each in again] == [None, None]
    query.writer().commit([*again], 0)
    query.writer().abort([*again], 0)
    assert query.ids() == [1, 2]


def test_h5_a_commit_that_comes_after_a_takeover_is_fenced(query: _Query) -> None:
    late = query.run(query.plan(0), 0, [[1], [2]])
    query.writer().commit([*query.run(query.plan(0), 0, [[1], [2]])], 0)
    query.done(0)
    for version in ("after the newer commit", "while a newer batch is under way"):
        with pytest.raises(FencedError, match="head is at version"):
            query.writer().commit([*late], 0)
        query.writer().abort([*late], 0)
        assert query.ids() == [1, 2], version
        newer = query.plan(1)
    query.writer().commit([*query.run(newer, 1, [[3]])], 1)
    assert query.ids() == [1, 2, 3]


def test_what_an_aborted_batch_prepared_is_gone_and_it_can_run_again(query: _Query) -> None:
    messages = query.run(query.plan(0), 0, [[1], [2]])
    query.writer().abort([messages[0], None], 0)
    with pytest.raises(FencedError):
        query.writer().commit([*messages], 0)
    query.writer().commit([*query.run(query.plan(0), 0, [[1], [2]])], 0)
    assert query.ids() == [1, 2]


def test_a_batch_of_which_no_task_was_done_is_taken_over(query: _Query) -> None:
    """A task may still be about to prepare, and nothing says under which version."""
    planned = query.plan(0)
    query.writer().abort([None, None], 0)
    late = query.run(planned, 0, [[1], [2]])
    with pytest.raises(FencedError):
        query.writer().commit([*late], 0)
    query.writer().commit([*query.run(query.plan(0), 0, [[1], [2]])], 0)
    assert query.ids() == [1, 2]


def test_h5_an_abort_that_comes_after_a_takeover_touches_nothing(query: _Query) -> None:
    """No task was done, so that nothing says which version the batch was planned under (R1)."""
    query.plan(0)
    successor = query.started_again()
    messages = successor.run(successor.plan(0), 0, [[1], [2]])
    query.writer().abort([None, None], 0)
    successor.writer().commit([*messages], 0)
    assert query.ids() == [1, 2]


@pytest.mark.parametrize("is_own", [False, True])
def test_h5_an_abort_that_meets_a_takeover_touches_nothing(
    query: _Query, monkeypatch: pytest.MonkeyPatch, is_own: bool
) -> None:
    """Which comes once the abort has seen head as its own planner left it; of another process, or of a query that the
    same one has started again."""
    query.plan(0)
    successor = query if is_own else query.started_again()
    messages: list[Written] = []

    def read_and_wait(spec: Spec) -> HeadSnapshot | None:
        head = read_seen(spec)
        messages.extend(successor.run(successor.plan(0), 0, [[1], [2]]))
        return head

    monkeypatch.setattr(stream_writer, "read_seen", read_and_wait)
    query.writer().abort([None, None], 0)
    successor.writer().commit([*messages], 0)
    assert query.ids() == [1, 2]


def test_who_does_not_know_who_has_planned_leaves_the_abort_to_the_next_start(query: _Query) -> None:
    """A session whose format was not registered by `register_formats`."""
    query.sink = EosSink
    messages = query.run(query.plan(0), 0, [[1], [2]])
    query.writer().abort([None, None], 0)
    query.writer().commit([*messages], 0)
    assert query.ids() == [1, 2]


def test_the_processes_of_a_session_know_one_another_and_no_others() -> None:
    """Spark pickles the class, which each of them loads."""
    sink = eos_sink()
    told = "import sys; from pyspark import cloudpickle; print(cloudpickle.load(sys.stdin.buffer).run)"
    sent = cloudpickle.dumps(sink)  # type: ignore[no-untyped-call]
    ended = subprocess.run([sys.executable, "-c", told], input=sent, capture_output=True, check=True)
    assert ended.stdout.decode().strip() == sink.run
    assert len({EosSink.run, sink.run, eos_sink().run}) == 3


def test_acknowledgements_of_two_plans_decide_nothing(query: _Query) -> None:
    older = query.run(query.plan(0), 0, [[1], [2]])
    newer = query.run(query.plan(0), 0, [[1], [2]])
    for messages in ([older[0], newer[1]], [newer[0], None], []):
        with pytest.raises(PrepareError, match=r"acknowledgements, of [02] plans|, 1 acknowledgements"):
            query.writer().commit([*messages], 0)
    with pytest.raises(PrepareError, match="not one acknowledgement of each task"):
        query.writer().commit([newer[1]], 0)
    assert query.ids() == []


def test_a_checkpoint_of_another_query_is_refused(query: _Query) -> None:
    query.writer().commit([*query.run(query.plan(0), 0, [[1]])], 0)
    (query.folder / "spark" / "metadata").write_text('{"id": "q2"}')
    with pytest.raises(PlanningError, match="IdentityError: Spark's checkpoint is of query"):
        query.plan(1)


def test_a_task_of_another_batch_writes_nothing(query: _Query) -> None:
    planned = query.plan(0)
    with pytest.raises(SpecError, match="a task of batch 1 was planned for 0"):
        query.run(planned, 1, [[1]])


def test_a_query_with_state_is_refused(query: _Query) -> None:
    (query.folder / "spark" / "state").mkdir()
    with pytest.raises(PlanningError, match="the query keeps state"):
        query.plan(0)


def test_a_checkpoint_that_spark_keeps_elsewhere_is_refused_before_anything_is_claimed(query: _Query) -> None:
    (query.folder / "spark" / "metadata").unlink()
    with pytest.raises(PlanningError, match="elsewhere than in"):
        query.plan(0)
    assert not (query.folder / "memory" / "head").exists()


@pytest.mark.parametrize(("old", "new"), [("table: rows", "table: rows2"), ("./memory", "./other")])
def test_a_spec_that_changes_under_a_batch_stops_it(query: _Query, old: str, new: str) -> None:
    """Rows would be decided that are elsewhere."""
    messages = query.run(query.plan(0), 0, [[1], [2]])
    (query.folder / "spec.yaml").write_text(_SPEC.replace(old, new))
    with pytest.raises(PrepareError, match="the spec was changed while batch 0 was written"):
        query.writer().commit([*messages], 0)
    query.writer().abort([*messages], 0)
    (query.folder / "spec.yaml").write_text(_SPEC)
    query.writer().commit([*query.run(query.plan(0), 0, [[1], [2]])], 0)
    assert query.ids() == [1, 2]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"spce": "a"}, "unknown option 'spce'; did you mean 'spec'"),
        ({"checkpointLocation": "s3a://bucket/a"}, "s3a://bucket/a is not on a local disk"),
        ({"spec": "/nowhere.yaml"}, "nowhere.yaml"),
    ],
)
def test_a_wrong_option_is_refused_by_name(query: _Query, changed: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        query.writer(**changed)


@pytest.mark.parametrize("missing", ["spec", "checkpointLocation"])
def test_a_missing_option_is_named(query: _Query, missing: str) -> None:
    options = {"spec": str(query.folder / "spec.yaml"), "checkpointLocation": "/c"}
    del options[missing]
    with pytest.raises(SpecError, match=f"option {missing} is missing"):
        EosSink(options).streamWriter(_SCHEMA, overwrite=False)


def test_complete_mode_is_refused(query: _Query) -> None:
    with pytest.raises(SpecError, match="output mode complete"):
        EosSink({}).streamWriter(_SCHEMA, overwrite=True)


@pytest.mark.parametrize(
    ("key", "added"),
    [
        ("max_backlog", ", max_backlog: {checkpoints: 2}}"),
        ("notifications", "}\nnotifications: [{name: ops, url: 'https://127.0.0.1/hook'}]"),
    ],
)
def test_a_key_that_needs_a_longer_process_is_refused(query: _Query, key: str, added: str) -> None:
    (query.folder / "spec.yaml").write_text(f"{_SPEC.rstrip().removesuffix('}')}{added}\n")
    with pytest.raises(SpecError, match=f"{key} is not for format") as caught:
        query.writer()
    assert "foreachBatch(ExactlyOnce(spec))" in caught.value.remedy


def test_each_checkpoint_is_in_the_history_once(query: _Query) -> None:
    for number in range(3):
        query.writer().commit([*query.run(query.plan(number), number, [[number, 10 + number], [20 + number]])], number)
        query.done(number)
    query.writer().commit([*query.run(query.plan(2), 2, [[2, 12], [22]])], 2)  # Spark has lost commits/2
    history = History.at(query.folder / "memory")
    totals = history.totals()
    assert (totals.checkpoints, totals.rows) == (3, 9)
    found = {each.checkpoint_id: each for each in history.checkpoints()}
    assert [(each.is_committed, each.session) for each in found.values()] == [(True, query.sink.run)] * 3
    assert all(each.committed_at is not None and each.phases for each in found.values())


def test_a_checkpoint_whose_committer_was_killed_is_in_the_history_after_the_next_start(query: _Query) -> None:
    query.writer().commit([*query.run(query.plan(0), 0, [[0]])], 0)
    for path in (query.folder / "memory").glob("history.sqlite*"):
        path.unlink()
    successor = query.started_again()
    successor.plan(0)
    assert History.at(query.folder / "memory").totals().checkpoints == 1


def test_a_batch_that_fails_is_in_the_history(query: _Query) -> None:
    (query.folder / "spark" / "state").mkdir()
    with pytest.raises(PlanningError):
        query.plan(0)
    (event,) = (each for each in History.at(query.folder / "memory").events() if each.kind == "failure")
    assert "the query keeps state" in event.message


def test_h25_a_plan_that_another_driver_has_overwritten_is_not_decided(query: _Query) -> None:
    """Spark renames a plan over another one: the file no longer says what the tasks have read."""
    messages = query.run(query.plan(0), 0, [[1], [2]])
    plan = query.folder / "spark" / "offsets" / "0"
    plan.write_text(plan.read_text().replace('"at": 0', '"at": 7'))
    with pytest.raises(PlanOverwrittenError):
        query.writer().commit([*messages], 0)
    query.writer().abort([*messages], 0)
    assert query.ids() == []
    query.writer().commit([*query.run(query.plan(0), 0, [[1], [2]])], 0)
    assert query.ids() == [1, 2]


def test_at_least_once_is_refused_by_name(query: _Query) -> None:
    (query.folder / "spec.yaml").write_text(_SPEC.replace("./memory", "./memory, mode: at-least-once"))
    options = {"spec": str(query.folder / "spec.yaml"), "checkpointLocation": str(query.folder / "spark")}
    with pytest.raises(SpecError, match="at-least-once, and this format writes exactly-once") as caught:
        EosSink(options).streamWriter(_SCHEMA, overwrite=False)
    assert "foreachBatch(ExactlyOnce(spec))" in caught.value.remedy
