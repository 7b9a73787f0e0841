"""A batch between Spark's jobs and the protocol: which try is decided, and what each job's outcome leads to.

Spark's place is taken by `_Jobs`, which runs each branch's tasks as it is told; all else is the product's own code.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from connectors.api.contracts import Sink, Writer
from connectors.dead_letters import encode_refused_row
from connectors.row_bisector import RowBisector
from connectors.spec import Expectation, SqlStep
from eos.errors import BadRecordError, ConnectorError, ExpectationError, PrepareError, RowLockedError
from spark_jobs.batch import batch as module
from spark_jobs.batch.acks import acknowledgement, of_source, of_unknown_tables
from spark_jobs.batch.batch import SparkBatch
from spark_jobs.batch.dead_letters import Rejected
from spark_jobs.batch.stopwatch import Stopwatch
from spark_jobs.batch.time_limit import TimeLimit
from spark_jobs.batch.writing import COUNTED
from spark_jobs.observe.history.model import RuleCount
from spark_jobs.query.expectations import Outcome, Rows
from spark_jobs.session.failures import TOKEN, CarriedError, carried
from tests.twophase_values import committable, record, scope
from twophase.ids import sink_key
from twophase.messages import Acknowledged, Failed
from twophase.values import CheckpointRecord, Committable

SCOPE = scope(7)


def _thrown(error: ConnectorError) -> PySparkException:
    """An error of a task as Spark throws it on the driver."""
    with pytest.raises(CarriedError) as found, carried(TOKEN):
        raise error
    return PySparkException(str(found.value))


def _table(*written: Committable, refused: bytes | None = None) -> pa.Table:
    return pa.Table.from_batches([acknowledgement(written, Stopwatch.of(len(written)), refused)])


@dataclass
class _Jobs:
    """Spark: each job ends as `ends` says."""

    ends: list[Callable[[], pa.Table]]
    together: list[bool] = field(default_factory=list)  # of each job, see branch_jobs.writing
    methods: list[Sequence[int]] = field(default_factory=list)  # of each job, by which rows are hashed
    placed: list[bool] = field(default_factory=list)  # of each job, see branch_jobs.run
    checked: list[dict[str, Outcome]] = field(default_factory=list)  # of each job, what rules of steps have counted
    first: int | None = None  # number of the first task of dead letters
    tasks: list[Any] = field(default_factory=list)  # of each job that writes rows
    letters_task: Any = None  # of the job that writes dead letters
    cancelled: list[str] = field(default_factory=list)
    is_cancelled: threading.Event = field(default_factory=threading.Event)

    def writing(self, task: Callable[[Any], Any], *, together: bool = False) -> object:
        self.tasks.append(task(_branch("warehouse")))
        self.together.append(together)
        return None

    def counting(self, *_: object) -> object:
        return None

    def run(
        self, *_: object, digest_methods: Sequence[int], placed: bool, checks: Any = None, notes: Any = None
    ) -> pa.Table:
        self.placed.append(placed)
        if checks is not None and self.checked:
            checks._found = self.checked.pop(0)
        self.methods.append(digest_methods)
        return self.ends.pop(0)()

    def written(self, _rows: object, _by: object, task: Any) -> Any:
        self.first, self.letters_task = task.first, task
        return SimpleNamespace(toArrow=self.ends.pop(0))

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802 Spark's name
        self.cancelled.append(group)
        self.is_cancelled.set()

    def getLocalProperty(self, _name: str) -> str:  # noqa: N802 Spark's name
        return "the query's jobs"


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> _Jobs:
    found = _Jobs([])
    monkeypatch.setattr(module, "branch_jobs", found)
    return found


def _fails(error: Exception) -> Callable[[], pa.Table]:
    def end() -> pa.Table:
        raise error

    return end


def _branch(*names: str, meeting: Sequence[str] | None = None) -> Any:
    sinks = [SimpleNamespace(name=name) for name in names]
    shares = [SimpleNamespace(sink=sink, digest=0) for sink in sinks]
    return SimpleNamespace(sinks=sinks, shares=shares, hashes=[("a",)], places=(), meeting=meeting)


def _batch(
    jobs: _Jobs,
    branches: Iterable[Any],
    *,
    stateful: bool = False,
    timeout_s: float = 60.0,
    letters: Any = None,
    expecting: Sequence[SqlStep] = (),
    limit: TimeLimit | None = None,
) -> SparkBatch:
    frame = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=jobs))
    found = tuple(branches)
    sinks = [sink.name for branch in found for sink in branch.sinks]
    flow = SimpleNamespace(branches=found, sinks=sinks, expecting=expecting, rejected=lambda _frame: {})
    return SparkBatch(cast(Any, frame), 7, cast(Any, flow), stateful, timeout_s, letters, limit=limit)


def test_tasks_that_wrote_nothing_for_lack_of_a_table_are_never_decided(jobs: _Jobs) -> None:
    """Only rows that come from a source as they are can have several tables. The other rows would be lost."""
    unknown = pa.Table.from_batches([of_unknown_tables([("warehouse", pa.schema([("n", pa.int64())]))])])
    jobs.ends = [lambda: unknown]
    ended = _batch(jobs, [_branch("warehouse")]).run_writers(SCOPE, direct=False)
    assert isinstance(ended, Failed)
    assert not ended.again
    assert ended.error.message.startswith("sink warehouse has several tables, and its rows are not from a source")


def test_h15_a_try_that_looks_for_equal_rows_is_never_decided(jobs: _Jobs) -> None:
    """Its rows are in other tasks than those of a try that runs again later, though all of them have prepared."""
    rows = committable(SCOPE)
    locked = RowLockedError("another task waits")
    jobs.ends = [_fails(_thrown(locked)), lambda: _table(rows), lambda: _table(rows)]
    batch = _batch(jobs, [_branch("warehouse", meeting=["k"])])
    for _ in range(2):
        ended = batch.run_writers(SCOPE, direct=False)
        assert isinstance(ended, Failed)
        assert (type(ended.error), ended.error.message, ended.again) == (RowLockedError, locked.message, True)
    decided = batch.run_writers(SCOPE, direct=False)
    assert isinstance(decided, Acknowledged)
    assert decided.committables == {"warehouse": (rows,)}
    assert jobs.together == [False, True, False]


def test_a_timeout_cancels_the_job_and_is_the_reason_of_the_abort(jobs: _Jobs) -> None:
    def cancelled() -> pa.Table:
        assert jobs.is_cancelled.wait(5)
        raise PySparkException("the job was cancelled")

    jobs.ends = [cancelled]
    ended = _batch(jobs, [_branch("warehouse")], timeout_s=0.05).run_writers(SCOPE, direct=False)
    assert isinstance(ended, Failed)
    assert ended.error.message == "checkpoint 7 was cancelled: it ran longer than checkpoint.timeout (0.05 s)"
    assert set(jobs.cancelled) == {"the query's jobs"}


@dataclass
class _Admission:
    """That takes fewer records after an overrun."""

    limit_s: float
    max_records: int = 4_000

    def overrun(self) -> bool:
        self.max_records //= 4
        return True

    def observe(self, records: int, duration_s: float) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("limit_s", "timeout_s", "why"),
    [
        (0.05, 60.0, "such a checkpoint should (0.05 s)"),
        (60.0, 0.05, "checkpoint.timeout (0.05 s)"),  # it follows the restart strategy, and is planned again, too
    ],
)
def test_a_checkpoint_that_overruns_is_replanned(
    jobs: _Jobs, limit_s: float, timeout_s: float, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    def cancelled() -> pa.Table:
        assert jobs.is_cancelled.wait(5)
        raise PySparkException("the job was cancelled")

    jobs.ends = [cancelled]
    limit = TimeLimit(timeout_s, _Admission(limit_s))
    ended = _batch(jobs, [_branch("warehouse")], timeout_s=timeout_s, limit=limit).run_writers(SCOPE, direct=False)
    assert isinstance(ended, Failed)
    assert not ended.again, "the same plan would overrun once more"
    assert ended.error.message == f"checkpoint 7 was cancelled: it ran longer than {why}"
    assert (limit.overran, limit.admission.max_records) == (7, 1_000)
    assert not limit.resumes(PrepareError("another"))
    assert limit.resumes(ended.error) == (limit_s < timeout_s)
    assert not limit.resumes(ended.error)
    assert [each.getMessage() for each in caplog.records] == (
        [f"{ended.error.message}; it is replanned, with at most 1000 records"] if limit_s < timeout_s else []
    )


@pytest.mark.parametrize("reason", ["a stop is requested", ""])
def test_a_batch_that_fails_otherwise_keeps_its_plan(jobs: _Jobs, reason: str) -> None:
    limit = TimeLimit(60.0, _Admission(30.0))
    batch = _batch(jobs, [_branch("warehouse")], limit=limit)

    def ended() -> pa.Table:
        if reason:
            batch.cancel(reason)
        raise PySparkException("the job was cancelled")

    jobs.ends = [ended]
    failed = batch.run_writers(SCOPE, direct=False)
    assert isinstance(failed, Failed)
    assert (limit.overran, limit.resumes(failed.error)) == (None, False)


@dataclass
class _Letters:
    """Dead letters: one was found while the rows were written."""

    mistaken: ConnectorError | None = None
    most: int = 10
    sink: Any = field(default_factory=lambda: SimpleNamespace(name="dead_letter", partition_by=None))
    counted: list[int] = field(default_factory=list)  # rows written, as the counts are compared with
    refused: list[dict[str, Any]] = field(default_factory=list)  # rows that sinks have refused
    rejected: int = 0  # rows that rules have made dead letters

    def found(
        self, _frame: object, _ranges: object, refused: pa.Table, rejected: Rejected, counted: object = None
    ) -> _Letters:
        assert counted is None, "only tasks that read sources acknowledge bad records"
        self.refused += refused.to_pylist()
        self.rejected = rejected.rows
        return self

    def surplus(self, checkpoint_id: int) -> ConnectorError | None:
        assert checkpoint_id == 7
        return BadRecordError("too many") if self.rejected > self.most else None

    def rows(self, *_: object) -> object:
        return None

    def count(
        self,
        _frame: object,
        _ranges: object,
        refused: pa.Table,
        checkpoint_id: int,
        rejected: Rejected,
        counted: object = None,
    ) -> int:
        assert (checkpoint_id, counted) == (7, None)
        return 40 + int(refused.num_rows) + rejected.rows

    @property
    def share(self) -> Any:
        return SimpleNamespace(sink=self.sink)

    def mistake(self, checkpoint_id: int, written: int) -> ConnectorError | None:
        assert checkpoint_id == 7
        self.counted.append(written)
        return self.mistaken


def test_dead_letters_are_decided_with_the_rows_of_their_checkpoint(jobs: _Jobs) -> None:
    rows = [committable(SCOPE, task) for task in range(2)]
    letter = committable(SCOPE, task=2, sink="dead_letter", rows=1)
    bisector = RowBisector(
        10, letters=[encode_refused_row("warehouse", pa.RecordBatch.from_pydict({"n": [1]}), "too large")]
    )
    jobs.ends = [lambda: _table(*rows, refused=bisector.encode()), lambda: _table(letter)]
    letters = _Letters()
    ended = _batch(jobs, [_branch("warehouse")], letters=letters).run_writers(SCOPE, direct=False)
    assert isinstance(ended, Acknowledged)
    assert ended.committables == {"warehouse": tuple(rows), "dead_letter": (letter,)}
    assert (jobs.first, letters.counted) == (2, [1])  # their tasks are numbered behind those of the rows
    assert [each["error"] for each in letters.refused] == ["too large"]


def test_dead_letters_that_do_not_fit_what_was_counted_abort_the_checkpoint(jobs: _Jobs) -> None:
    jobs.ends = [lambda: _table(committable(SCOPE)), lambda: _table(committable(SCOPE, task=1, sink="dead_letter"))]
    wrong = PrepareError("3 records were put aside, and 1 was found again")
    ended = _batch(jobs, [_branch("warehouse")], letters=_Letters(wrong)).run_writers(SCOPE, direct=False)
    assert ended == Failed(wrong)


_RULE = Expectation.model_validate({"name": "r", "condition": "x > 0", "action": "dead-letter", "max_failed": 3})
_STEP = SqlStep.model_construct(name="a", sql="", watermark=None, output_mode="append", expect=[_RULE])


def test_counts_are_those_of_the_attempt_that_is_decided(jobs: _Jobs) -> None:
    rows = committable(SCOPE)
    jobs.checked = [{"a": Outcome(9, (2,), Rows(), ("",))}, {"a": Outcome(9, (3,), Rows(), ("",))}]
    jobs.ends = [_fails(_thrown(RowLockedError("another task waits"))), lambda: _table(rows)]
    batch = _batch(jobs, [_branch("warehouse")], expecting=[_STEP])
    assert isinstance(batch.run_writers(SCOPE, direct=False), Failed)
    assert not batch.rules
    assert isinstance(batch.run_writers(SCOPE, direct=False), Acknowledged)
    assert batch.rules == (RuleCount("a", "r", "dead-letter", 9, 3),)


def test_more_failed_rows_than_a_rule_allows_abort_the_checkpoint(jobs: _Jobs) -> None:
    jobs.checked = [{"a": Outcome(9, (4,), Rows(), ("",))}]
    jobs.ends = [lambda: _table(committable(SCOPE))]
    ended = _batch(jobs, [_branch("warehouse")], expecting=[_STEP]).run_writers(SCOPE, direct=False)
    assert isinstance(ended, Failed)
    assert isinstance(ended.error, ExpectationError)


@pytest.mark.parametrize("most", [1, 2])
def test_rows_that_a_rule_rejects_are_dead_letters_within_their_limit(
    jobs: _Jobs, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is checked before a second job computes the rows."""
    monkeypatch.setattr(module, "letters_of", lambda steps, rejected: (steps, rejected))
    monkeypatch.setattr(module, "unlike", lambda _steps, _rejected, _job: "")
    letter = committable(SCOPE, task=1, sink="dead_letter", rows=2)
    jobs.checked = [{"a": Outcome(9, (2,), Rows(2, 17), ("",))}]
    jobs.ends = [lambda: _table(committable(SCOPE)), lambda: _table(letter)]
    letters = _Letters(most=most)
    ended = _batch(jobs, [_branch("warehouse")], letters=letters, expecting=[_STEP]).run_writers(SCOPE, direct=False)
    assert letters.rejected == 2
    assert isinstance(ended, Failed if most < 2 else Acknowledged)
    assert len(jobs.ends) == (1 if most < 2 else 0)


def test_dead_letters_of_other_rows_abort_the_checkpoint(jobs: _Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "letters_of", lambda steps, rejected: (steps, rejected))
    monkeypatch.setattr(module, "unlike", lambda _steps, rejected, _job: next(iter(rejected)))
    jobs.checked = [{"a": Outcome(9, (2,), Rows(2, 17), ("",))}]
    letter = committable(SCOPE, task=1, sink="dead_letter", rows=2)
    jobs.ends = [lambda: _table(committable(SCOPE)), lambda: _table(letter)]
    ended = _batch(jobs, [_branch("warehouse")], letters=_Letters(), expecting=[_STEP]).run_writers(SCOPE, direct=False)
    assert isinstance(ended, Failed)
    assert "step a gave other rows" in ended.error.message


@dataclass
class _Skipping:
    """A source that leaves out so many records of each try."""

    skipped: int
    allowed: int = 5

    def counted(self, _batch: object, _ranges: object) -> dict[str, int]:
        return {"orders": self.skipped}

    def surplus(self, checkpoint_id: int, skipped: dict[str, int], _ranges: object) -> ConnectorError | None:
        assert (checkpoint_id, skipped) == (7, {"orders": self.skipped})
        return BadRecordError("too many") if self.skipped > self.allowed else None


@pytest.mark.parametrize("chained", [True, False])
def test_a_batch_that_leaves_out_too_many_records_is_not_decided(
    jobs: _Jobs, monkeypatch: pytest.MonkeyPatch, *, chained: bool
) -> None:
    for skipped in (5, 6):
        rows = committable(SCOPE)
        table = _table(rows)
        if chained:
            table = pa.concat_tables(
                [table, *(pa.Table.from_batches([of_source("orders", each, "")]) for each in (skipped - 2, 2))]
            )
        jobs.ends = [lambda table=table: table]  # type: ignore[misc]  # mypy knows no type of a default
        batch = _batch(jobs, [_branch("warehouse")])
        batch.skipping = cast(Any, _Skipping(skipped))
        batch.ranges = {"orders": ()}
        if chained:
            batch.chains = (cast(Any, SimpleNamespace(source=SimpleNamespace(name="orders"), several_tables=False)),)
            job = SimpleNamespace(toArrow=jobs.ends.pop(0))
            monkeypatch.setattr(module, "chained_job", lambda *_, job=job: job)
        ended = batch.run_writers(SCOPE, direct=False)
        assert batch.skipped == {"orders": skipped}
        if skipped == 5:
            assert isinstance(ended, Acknowledged)
            assert ended.committables == {"warehouse": (rows,)}
        else:
            assert isinstance(ended, Failed)
            assert (type(ended.error), ended.again) == (BadRecordError, False)


def test_chained_sources_are_counted_each_by_its_name(jobs: _Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each branch gets the tasks of its source, numbered one after another."""
    asked: list[Any] = []
    written = [committable(SCOPE, 0, "a"), committable(SCOPE, 1, "b"), committable(SCOPE, 2, "b")]
    of_sources = [
        of_source("orders", 3, '[["v1", "x"]]'),
        of_source("users", 2, '[["v2", "y"]]'),
        of_source("users", 1, ""),
    ]
    table = pa.concat_tables([_table(*written), pa.Table.from_batches(of_sources)])

    def chained_job(_spark: object, chains: Iterable[Any], ranges: object) -> Any:
        asked.extend([*((chain.source.name, write.shares[0].sink.name) for chain, write in chains), ranges])
        return SimpleNamespace(toArrow=lambda: table)

    monkeypatch.setattr(module, "chained_job", chained_job)
    batch = _batch(jobs, [_branch("a"), _branch("b")])
    batch.chains = tuple(
        cast(Any, SimpleNamespace(source=SimpleNamespace(name=name), several_tables=False))
        for name in ("orders", "users")
    )
    batch.ranges = {"orders": (), "users": ()}
    batch.skipping = cast(Any, SimpleNamespace(surplus=lambda *_: None))
    ended = batch.run_writers(SCOPE, direct=False)
    assert asked == [("orders", "a"), ("users", "b"), batch.ranges]
    assert isinstance(ended, Acknowledged)
    assert {name: [each.transaction.task for each in of] for name, of in ended.committables.items()} == {
        "a": [0],
        "b": [1, 2],
    }
    assert batch.skipped == {"orders": 3, "users": 3}
    assert ended.schemas == {"orders": {("v1", "x")}, "users": {("v2", "y")}}


def _then(*decided: Committable) -> CheckpointRecord:
    names = ("warehouse", "dead_letter")
    by_name = {name: tuple(each for each in decided if each.transaction.sink == sink_key(name)) for name in names}
    return replace(record(7), committables=by_name)


def _lost(*lost: Committable) -> dict[str, tuple[Committable, ...]]:
    return {name: group for name, group in _then(*lost).committables.items() if group}


def test_r7_dead_letters_that_are_lost_are_written_again_behind_the_tasks_of_the_rows(jobs: _Jobs) -> None:
    then = scope(7, epoch=0)
    rows = [committable(SCOPE, task) for task in range(2)]
    letter = committable(SCOPE, task=2, sink="dead_letter", rows=1)
    bisector = RowBisector(
        10, letters=[encode_refused_row("warehouse", pa.RecordBatch.from_pydict({"n": [1]}), "too large")]
    )
    jobs.ends = [lambda: _table(*rows, refused=bisector.encode()), lambda: _table(letter)]
    gone = replace(committable(then, 1), refused=1), committable(then, 2, "dead_letter")
    letters, lost, decided = (
        _Letters(),
        _lost(*gone),
        replace(_then(replace(committable(then), digest=5), *gone), digest_method=1),
    )
    batch = _batch(jobs, [_branch("warehouse")], stateful=True, letters=letters)
    ended = batch.rewrite_missing(SCOPE, decided, lost)
    assert isinstance(ended, Acknowledged)
    assert ended.committables == {"warehouse": tuple(rows), "dead_letter": (letter,)}
    assert (ended.counted, ended.digest_method, jobs.methods) == ({}, 1, [(1,)])
    assert (jobs.first, letters.counted) == (2, [1])
    assert [each["error"] for each in letters.refused] == ["too large"]
    (row_task,), letters_task = jobs.tasks, jobs.letters_task
    for task, wanted in ((row_task, lost["warehouse"]), (letters_task, lost["dead_letter"])):
        (each,) = wanted
        writer = Mock(spec=Writer)
        sink = Mock(spec=Sink, writer=Mock(return_value=writer))
        sink.name = "warehouse" if task is row_task else "dead_letter"
        own = replace(each.transaction, scope=SCOPE, task_attempt=1)
        assert task.writer_of(sink, own) is writer
        assert sink.writer.call_args.args == (own, each)
        counter = task.writer_of(sink, replace(own, task=9))
        counter.write_atomic(pa.RecordBatch.from_pydict({"n": [1, 2]}))
        assert counter.prepare() == Committable(replace(own, task=9), 2)
    assert (row_task.bisector, letters_task.bisector, row_task.direct, jobs.placed) == (10, None, False, [True])


def test_r7_dead_letters_that_are_there_are_counted_and_not_written(jobs: _Jobs) -> None:
    """Those of rows that are refused now, of bad records, and of rows that were refused in tasks that lost nothing."""
    rows = committable(SCOPE)
    bisector = RowBisector(
        10, letters=[encode_refused_row("warehouse", pa.RecordBatch.from_pydict({"n": [1]}), "too large")]
    )
    jobs.ends = [lambda: _table(rows, refused=bisector.encode())]
    batch = _batch(jobs, [_branch("warehouse")], letters=_Letters())
    then = scope(7, epoch=0)
    gone = replace(committable(then), refused=1)
    there = [replace(committable(then, task, rows=task - 1), refused=task) for task in (1, 2)]
    ended = batch.rewrite_missing(SCOPE, _then(gone, *there), _lost(gone))
    assert isinstance(ended, Acknowledged)
    assert (ended.committables, ended.counted) == ({"warehouse": (rows,)}, {"dead_letter": 40 + 1 + 3})
    assert jobs.first is None
    (task,) = jobs.tasks
    for each in there:  # one of them has no row
        counter = task.writer_of(SimpleNamespace(name="warehouse"), each.transaction)
        counter.write_atomic(pa.RecordBatch.from_pydict({"n": [1, 2]}))
        assert counter.prepare() == Committable(each.transaction, 2)


def test_r7_a_checkpoint_of_which_no_row_was_refused_is_written_again_as_it_was(jobs: _Jobs) -> None:
    """Without savepoints, and without the columns of a row's place: rows of another size may come to other tasks."""
    gone = committable(scope(7, epoch=0))
    jobs.ends = [lambda: _table(committable(SCOPE))]
    batch = _batch(jobs, [_branch("warehouse")], letters=_Letters())
    ended = batch.rewrite_missing(SCOPE, _then(gone), _lost(gone))
    assert isinstance(ended, Acknowledged)
    assert ended.counted == {"dead_letter": 40}
    assert ([each.bisector for each in jobs.tasks], jobs.placed) == ([None], [False])


def test_r7_where_a_task_gave_nothing_but_refused_rows_all_of_them_are_refused_again(jobs: _Jobs) -> None:
    """A sink that has none of its rows has lost none, and the dead letters are lost."""
    then = scope(7, epoch=0)
    there, letter = replace(committable(then, rows=0), refused=3), committable(then, 1, "dead_letter", 3)
    jobs.ends = [lambda: _table(committable(SCOPE, rows=0)), lambda: _table(committable(SCOPE, 1, "dead_letter", 3))]
    batch = _batch(jobs, [_branch("warehouse")], letters=_Letters())
    assert isinstance(batch.rewrite_missing(SCOPE, _then(there, letter), _lost(letter)), Acknowledged)
    (task,) = jobs.tasks
    own = replace(there.transaction, scope=SCOPE)
    writer = task.writer_of(SimpleNamespace(name="warehouse"), own)  # has no `writer`: the sink gets none
    bisector = RowBisector(task.bisector)
    bisector.write(writer, "warehouse", pa.RecordBatch.from_pydict({"n": [1, 2, 3]}))
    assert [json.loads(each["value"][0].as_py())["n"] for each in bisector.letters] == [1, 2, 3]
    assert bisector.count_refused("warehouse", writer.prepare()).refused == 3
    assert (bisector.count_refused("warehouse", writer.prepare()).rows, writer.prepare().transaction) == (0, own)


def test_r7_dead_letters_that_do_not_fit_what_was_counted_are_not_written_again(jobs: _Jobs) -> None:
    jobs.ends = [lambda: _table(committable(SCOPE)), lambda: _table(committable(SCOPE, task=1, sink="dead_letter"))]
    wrong = PrepareError("3 records were put aside, and 1 was found again")
    batch = _batch(jobs, [_branch("warehouse")], letters=_Letters(wrong))
    gone = committable(scope(7, epoch=0), 1, "dead_letter")
    assert batch.rewrite_missing(SCOPE, _then(gone), _lost(gone)) == Failed(wrong)


def _counts(*rows: tuple[int, int, int, int]) -> Callable[[], pa.Table]:
    names = [*(each.split(" ")[0] for each in COUNTED.split(", ")), "branch"]
    found = [
        dict(zip(names, (number, count, str(digest), branch), strict=True)) for branch, number, count, digest in rows
    ]
    return lambda: pa.Table.from_pylist(found)


def test_r4_a_replay_with_state_runs_its_job_and_adds_up_each_branch(jobs: _Jobs) -> None:
    """Two branches, two methods, and of each branch two tasks: hashes are numbered through the methods."""
    most = 2**64 - 1
    jobs.ends = [
        _counts(
            *[(0, 0, 3, most), (0, 1, 3, 10), (0, 0, 4, 5), (0, 1, 4, 20)],
            *[(1, 0, 1, 100), (1, 1, 1, 200), (1, 0, 0, 0), (1, 1, 0, 0)],
        )
    ]
    branches = [_branch("warehouse"), _branch("archive")]
    found = _batch(jobs, branches, stateful=True).discard((1, 2))
    assert found == [{"warehouse": (7, 4), "archive": (1, 100)}, {"warehouse": (7, 30), "archive": (1, 200)}]
    assert jobs.methods == [(1, 2)]


def test_r4_a_replay_without_state_runs_nothing(jobs: _Jobs) -> None:
    assert _batch(jobs, [_branch("warehouse")]).discard((2,)) is None
    assert jobs.methods == []


def test_r4_a_replay_that_fails_is_not_taken_for_one_without_rows(jobs: _Jobs) -> None:
    jobs.ends = [_fails(PySparkException("a task failed"))]
    with pytest.raises(PrepareError, match="checkpoint 7 failed: a task failed"):
        _batch(jobs, [_branch("warehouse")], stateful=True).discard((2,))
