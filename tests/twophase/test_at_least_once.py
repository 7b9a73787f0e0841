"""`checkpoint.mode: at-least-once`: its steps, its way into SQLite, and changes of mode between two runs."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.log.place import LogPlace
from connectors.registry import build_sink
from connectors.row_bisector import RowBisector
from connectors.spec import SpecMistakesError, guarantees, load_spec, promise
from connectors.sql.sqlite.sink import SqliteSink
from eos.errors import BadRowError, FencedError, IdentityError, PrepareError, SpecError, TargetError
from spark_jobs.cli import run_command_line
from spark_jobs.session.master import check_sinks
from tests.twophase_values import committable, drive, head, record, ref, scope
from twophase import messages
from twophase.checkpoint import run_checkpoint
from twophase.codec import decode_record, encode_record
from twophase.driver import Driver
from twophase.head_value import HeadValue
from twophase.ids import Scope, TransactionId, sink_key
from twophase.local_head import LocalHead
from twophase.messages import Acknowledged, BatchStart, Failed, HeadSnapshot, Inspected
from twophase.ownership import Ownership
from twophase.startup import start
from twophase.status import read_status
from twophase.values import Committable, OffsetRange, SinkState, SparkState, StartingPoint
from wal.testing import files_in

BEGIN = BatchStart(0, {"orders": {"orders/0": 10}}, "v1 0", at=1.0)
START = head(positions={"orders": {"orders/0": 4}})


def note(value: HeadValue = START, **answers: Any) -> tuple[Any, list[Any]]:
    given = {
        "Swap": lambda _: True,
        "RunWriters": lambda _: Acknowledged({"warehouse": (committable(scope(0)),)}, at=2.0),
        **answers,
    }
    steps = run_checkpoint(Ownership("me", 1, value), BEGIN, ("warehouse",), retained=10, direct=True)
    return drive(steps, given)


def test_one_swap_notes_a_checkpoint() -> None:
    result, actions = note()
    assert [type(each).__name__ for each in actions] == ["RunWriters", "AwaitState", "PutRecord", "Swap", "CommitBack"]
    ran, _, _, swap, told = actions
    assert ran == messages.RunWriters(scope(0), direct=True)
    assert (swap.point, swap.value.completed, swap.value.committed) == ("note", 0, 0)
    assert swap.value.positions == told.positions == {"orders": {"orders/0": 10}}
    assert (result.direct, result.rows, result.ranges) == (True, 3, {"orders": (OffsetRange("orders/0", 4, 10),)})


@pytest.mark.parametrize(
    "answer",
    [
        Failed(PrepareError("a task failed")),
        Acknowledged({}, 2.0),
        Acknowledged({"warehouse": (committable(scope(0), task=1),)}, 2.0),
    ],
    ids=["failed", "a sink is missing", "a task is missing"],
)
def test_what_not_all_tasks_have_committed_is_not_noted(answer: object) -> None:
    seen: list[str] = []
    with pytest.raises(PrepareError):
        note(RunWriters=lambda _: answer, Swap=lambda swap: seen.append(swap.point), PutRecord=seen.append)
    assert seen == []


def test_a_try_that_leaves_refused_rows_out_follows_at_once() -> None:
    """Nothing is aborted: nothing is prepared, and no swap is on its way."""
    given: list[Any] = [Failed(BadRowError("too long"), again=True), Acknowledged({"warehouse": ()}, at=2.0)]
    result, actions = note(RunWriters=lambda _: given.pop(0))
    assert [type(each).__name__ for each in actions] == [
        "RunWriters",
        "RunWriters",
        "AwaitState",
        "PutRecord",
        "Swap",
        "CommitBack",
    ]
    assert actions[0] == actions[1] == messages.RunWriters(scope(0), direct=True)
    assert result.committables == {"warehouse": ()}


def test_a_superseded_driver_is_told_so_when_it_notes() -> None:
    with pytest.raises(FencedError):
        note(Swap=lambda _: False, ReadHead=lambda _: HeadSnapshot(7, replace(START, epoch=2)))


def test_a_start_after_it_asks_for_no_witness_and_has_slots_catch_up() -> None:
    direct = replace(record(4, 0, 10), direct=True)
    value = head(epoch=7, query_id="q", completed=4, committed=4, records=(ref(3), ref(4)))
    asked: list[Any] = []

    def inspect(action: Any) -> Inspected:
        asked.append(action.expected)
        return Inspected(SparkState("q", 4, 4, {4: "v1 4"}), {"warehouse": SinkState(value.incarnation, 6, 2)})

    answers = {
        "ReadHead": lambda _: HeadSnapshot(9, value),
        "Inspect": inspect,
        "LoadRecord": lambda action: {ref(3): record(3, 0, 5), ref(4): direct}[action.ref],
        "Swap": lambda _: True,
        "ListPrepared": lambda _: {"warehouse": ()},
    }
    owned, actions = drive(start("orders", ("warehouse",), "run.1", "n" * 20, 10), answers)
    assert asked == [{"warehouse": ()}, {}]
    catch_up = messages.FastForward(value.incarnation, 8, 4, ("warehouse",), counted={"warehouse": 3})
    assert actions[-2:] == [catch_up, messages.Sweep(owned.head)]


def test_a_record_tells_its_mode() -> None:
    plain = record(4, 0, 10)
    assert b"direct" not in encode_record(plain)  # as before there was another mode
    for each in (plain, replace(plain, direct=True)):
        assert decode_record(encode_record(each)) == each


SCHEMA = pa.schema([("n", pa.int64())])
ROWS = 10


@dataclass
class World:
    """What outlives a driver; and a job of two tasks, which writes as it is told."""

    folder: Path
    starts: int = 0
    attempts: int = 0
    planned: int = -1
    fails: bool = False  # the second task, when the first one has ended
    letters: SqliteSink | None = None  # the dead_letter of the next driver

    def __post_init__(self) -> None:
        self.query("CREATE TABLE t (n INTEGER)")
        self.sink = SqliteSink("s", self.folder / "t.db", "t", LogPlace(self.folder / "log")).open(SCHEMA)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / "t.db")) as connection:
            return connection.execute(statement).fetchall()

    def await_state(self, _checkpoint_id: int) -> None:
        """Nothing to wait for."""

    def state(self, _incarnation: str) -> SparkState:
        log = {number: f"offsets {number}" for number in range(self.planned + 1)}
        return SparkState("query" if self.planned >= 0 else None, self.planned, self.planned - 1, log)

    def driver(self, *, direct: bool) -> Driver:
        """Started."""
        self.starts += 1
        sinks = {each.name: each.committer("p") for each in (self.sink, self.letters) if each is not None}
        late = [self.letters.name] if self.letters is not None else []
        session, incarnation = f"d{self.starts}", f"{self.starts:020d}"
        head = LocalHead(self.folder)
        driver = Driver("p", head, sinks, self, session, incarnation, retained=2, direct=direct, late=late)
        driver.start()
        return driver

    def run(self, driver: Driver, number: int) -> None:
        """Spark runs this batch."""
        self.planned = number
        ends, began = {"kafka": {"t/0": (number + 1) * ROWS}}, {"kafka": StartingPoint({"t/0": 0})}
        driver.checkpoint(BatchStart(number, ends, f"offsets {number}", 0.0, began), self)
        driver.set_query("query")

    def run_writers(self, scope: Scope, *, direct: bool) -> Acknowledged | Failed:
        first = scope.checkpoint_id * ROWS
        half = first + ROWS // 2
        accepted = [self.task(scope, 0, range(first, half), direct=direct)]
        if self.fails:
            return Failed(PrepareError("a task failed"))
        accepted.append(self.task(scope, 1, range(half, first + ROWS), direct=direct))
        nothing: dict[str, tuple[Committable, ...]] = {self.letters.name: ()} if self.letters is not None else {}
        return Acknowledged({"s": tuple(accepted), **nothing}, at=0.0)

    def task(self, scope: Scope, task: int, numbers: range, *, direct: bool) -> Committable:
        self.attempts += 1
        transaction = TransactionId(scope, sink_key("s"), task, self.attempts)
        batch = pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA)
        if direct:
            writer = self.sink.direct_writer(transaction)
            writer.write(batch)
            return writer.commit()
        other = self.sink.writer(transaction)
        other.write(batch)
        return other.prepare()

    def discard(self, digest_methods: Sequence[int]) -> Sequence[Mapping[str, tuple[int, int]]] | None:
        return None

    def repeated(self, checkpoints: int) -> list[int]:
        """All rows of these checkpoints are there and no others, and nothing waits: those that are there twice."""
        found = Counter(int(row[0]) for row in self.query("SELECT n FROM t"))
        assert set(found) == set(range(checkpoints * ROWS))
        assert max(found.values()) <= 2
        assert files_in(self.folder / "log") == []
        return sorted(n for n, times in found.items() if times == 2)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_rows_of_a_failed_try_come_twice_and_no_others(world: World) -> None:
    world.run(world.driver(direct=True), 0)
    world.fails = True
    with pytest.raises(PrepareError):
        world.run(world.driver(direct=True), 1)
    world.fails = False
    driver = world.driver(direct=True)
    for number in (1, 2):
        world.run(driver, number)
    assert world.repeated(3) == list(range(10, 15))
    assert world.query("SELECT count(*) FROM eos_witness") == [(0,)]
    status = read_status(LocalHead(world.folder))
    assert status is not None
    assert [(each.checkpoint_id, each.direct) for each in status.checkpoints] == [(2, True), (1, True), (0, True)]


def test_a_batch_that_is_noted_is_not_written_again(world: World) -> None:
    world.run(world.driver(direct=True), 0)
    world.run(world.driver(direct=True), 0)
    world.run(world.driver(direct=False), 0)
    assert world.repeated(1) == []


def test_of_two_drivers_the_older_one_is_fenced(world: World) -> None:
    older = world.driver(direct=True)
    newer = world.driver(direct=True)
    world.run(newer, 0)
    with pytest.raises(FencedError):
        world.run(older, 0)
    assert world.repeated(1) == list(range(10))
    with pytest.raises(FencedError):
        older.committers["s"].fast_forward(newer.owned.incarnation, older.owned.epoch, 0)


@pytest.mark.parametrize("letters", [False, True])
@pytest.mark.parametrize("checkpoints", [1, 5])
def test_the_mode_changes_and_nothing_is_lost_or_doubled(world: World, checkpoints: int, letters: bool) -> None:
    """`checkpoints` in each run: more than head keeps records of, too."""
    if letters:
        world.query("CREATE TABLE letters (n INTEGER)")
        world.letters = replace(world.sink, name="letters", table="letters")
    number = 0
    for direct in (False, True, False, True, True, False):
        driver = world.driver(direct=direct)
        for number in range(number, number + checkpoints):  # noqa: B020 goes on where it ended
            world.run(driver, number)
        number += 1
    assert world.repeated(6 * checkpoints) == []


@pytest.mark.parametrize("between", [(True,), (True, False), (False,)], ids=str)
def test_a_dead_letter_that_was_left_out_may_come_back(world: World, between: tuple[bool, ...]) -> None:
    """At-least-once there is none. Its slots have not counted the checkpoints that went on without it."""
    world.query("CREATE TABLE letters (n INTEGER)")
    letters = replace(world.sink, name="letters", table="letters")
    world.letters = letters
    world.run(world.driver(direct=False), 0)
    world.letters = None
    for number, direct in enumerate(between, 1):
        world.run(world.driver(direct=direct), number)
    world.letters = letters
    driver, last = world.driver(direct=False), len(between) + 1
    world.run(driver, last)
    world.run(driver, last + 1)
    assert world.repeated(last + 2) == []
    assert world.query("SELECT min(checkpoint_id), max(checkpoint_id) FROM eos_slot") == [(last + 1, last + 1)]


def test_a_driver_of_before_the_change_applies_nothing(world: World) -> None:
    """It was frozen between its decision and its commit; the at-least-once run has committed for it."""
    frozen = world.driver(direct=False)
    commit = frozen.committers["s"].commit
    woken: list[BaseException] = []

    class Frozen(BaseException):
        pass

    def stop(checkpoint_id: int, committables: Any, *, own: bool = False, known: int | None = None) -> Any:
        woken.append(Frozen())
        raise woken[0]

    frozen.committers["s"].commit = stop  # type: ignore[method-assign]
    with pytest.raises(Frozen):
        world.run(frozen, 0)
    world.run(world.driver(direct=True), 0)
    world.run(world.driver(direct=True), 1)
    assert world.repeated(2) == []
    decided = read_status(LocalHead(world.folder))
    assert decided is not None
    (first,) = [each for each in decided.checkpoints if each.checkpoint_id == 0]
    with pytest.raises(FencedError):
        commit(0, first.committables["s"])
    driver = world.driver(direct=False)
    world.run(driver, 1)
    world.run(driver, 2)
    assert world.repeated(3) == []


def test_a_database_of_before_is_still_noticed(world: World) -> None:
    """Slots catch up with what tasks committed, never with what was lost."""
    world.run(world.driver(direct=True), 0)
    world.run(world.driver(direct=False), 1)
    with closing(sqlite3.connect(world.folder / "t.db")) as connection, connection:
        connection.execute("UPDATE eos_slot SET checkpoint_id = 0")
        connection.execute("DELETE FROM eos_witness")
    with pytest.raises(
        IdentityError,
        match=r"s went back in time.*up to 0.*lacks 2 transactions with 10 rows",
    ):
        world.driver(direct=False)


def writer_of(sink: SqliteSink, attempt: int = 1) -> Any:
    return sink.direct_writer(TransactionId(scope(0), sink_key("s"), 0, attempt))


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA)


def test_a_task_waits_for_its_turn_at_the_file(world: World) -> None:
    writers = [writer_of(world.sink, n) for n in range(4)]
    for n, writer in enumerate(writers):
        for part in range(10):
            writer.write(batch(*range(n * 100 + part * 10, n * 100 + part * 10 + 10)))
    with closing(sqlite3.connect(world.folder / "t.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        threads = [threading.Thread(target=writer.commit) for writer in writers]
        for thread in threads:
            thread.start()
        threads[0].join(6)  # longer than a statement waits
        assert threads[0].is_alive()
        other.execute("ROLLBACK")
        for thread in threads:
            thread.join(60)
    assert sorted(n for (n,) in world.query("SELECT n FROM t")) == list(range(400))


def test_what_is_aborted_or_refused_leaves_nothing(world: World) -> None:
    aborted = writer_of(world.sink)
    aborted.write(batch(1, 2))
    aborted.abort()
    world.query("CREATE TRIGGER no BEFORE INSERT ON t WHEN NEW.n = 7 BEGIN SELECT RAISE(ABORT, 'seven'); END")
    refused = writer_of(world.sink)
    refused.write(batch(*range(10)))
    with pytest.raises(BadRowError, match="seven"):
        refused.commit()
    refused.abort()
    assert world.query("SELECT n FROM t") == []


def test_a_row_that_a_constraint_refuses_is_found_before_the_end_and_is_alone(world: World) -> None:
    """The file is written at the task's end only. Sifted, each batch is tried before."""
    world.query("CREATE TRIGGER no BEFORE INSERT ON t WHEN NEW.n % 10 = 7 BEGIN SELECT RAISE(ABORT, 'seven'); END")
    writer, bisector = writer_of(world.sink), RowBisector(10)
    for numbers in (range(10), range(10, 20)):
        bisector.write(writer, "s", batch(*numbers))
    assert world.query("SELECT n FROM t") == []
    assert writer.commit().rows == 18
    assert [n for (n,) in world.query("SELECT n FROM t ORDER BY n")] == [n for n in range(20) if n % 10 != 7]
    assert (bisector.refused, len(bisector.letters)) == ({"s": 2}, 2)


@pytest.mark.parametrize("rows", [10, 1_000_000], ids=["when it is flushed", "at once"])
def test_a_full_disk_fails_the_task_and_says_where(world: World, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is raised by what then ends the writer: the task's other sinks are still to be ended."""
    monkeypatch.setattr("connectors.row_spool.TemporaryFile", partial(Path("/dev/full").open, "r+b"))
    writer = writer_of(world.sink)

    def write() -> None:
        for _ in range(2):
            writer.write(batch(*range(rows)))
        writer.commit()

    with pytest.raises(PrepareError, match=r"sink s, task 0: the temporary file .*No space left") as caught:
        write()
    assert "TMPDIR" in caught.value.remedy
    writer.abort()
    assert world.query("SELECT n FROM t") == []


@pytest.mark.parametrize(
    ("table", "refused"),
    [
        ("n INTEGER PRIMARY KEY", "the primary key"),
        ("n INTEGER, UNIQUE (n)", "sqlite_autoindex_u_1"),
        ("i INTEGER PRIMARY KEY, n INTEGER", ""),
        ("n INTEGER", ""),
    ],
)
def test_a_table_that_would_refuse_a_repeat_is_refused(world: World, table: str, refused: str) -> None:
    world.query(f"CREATE TABLE u ({table})")
    sink = replace(world.sink, table="u", repeats=True, bindings=())
    replace(sink, repeats=False).open(SCHEMA)
    if not refused:
        assert sink.open(SCHEMA).columns == ("n",)
        return
    with pytest.raises(TargetError, match=f"unique key {refused} would refuse a row that is written again"):
        sink.open(SCHEMA)
    assert any(refused in each.detail and not each.ok for each in sink.check(SCHEMA))


SPEC = """\
pipeline: orders
checkpoint: {location: state, mode: %s}
sources: [{name: s, connector: kafka, bootstrap_servers: a, topics: [t], format: {type: raw}}]
sinks:
  - {name: file, from: s, connector: sqlite, path: x.db, table: t, commit: write-ahead-log}
  - {name: db, from: s, connector: mysql, url: "mysql+pymysql://u:p@h/d", table: t, commit: %s}
  - {name: topic, from: s, connector: kafka, bootstrap_servers: a, topic: u, format: raw}
"""


def write_spec(folder: Path, mode: str, commit: str = "two-phase") -> Path:
    path = folder / "orders.yaml"
    path.write_text(SPEC % (mode, commit))
    return path


def test_what_validate_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for mode in ("at-least-once", "exactly-once"):
        path = write_spec(tmp_path, mode)
        spec = load_spec(path, {})
        assert spec.checkpoint.at_least_once == (mode == "at-least-once")
        assert promise(spec).startswith(f"{mode}: ")
        assert {each.promise.partition(":")[0] for each in guarantees(spec)} == {mode}
        built: list[Any] = [build_sink(spec, entry) for entry in spec.sinks]
        assert [sink.repeats for sink in built] == [spec.checkpoint.at_least_once] * 3
        assert run_command_line(["validate", str(path)]) == 0
        assert f"orders: {mode}, a checkpoint every 2 s" in capsys.readouterr().out


def test_status_tells_the_mode_of_the_pipeline_and_of_each_checkpoint(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_spec(tmp_path, "at-least-once")
    path.write_text(path.read_text().replace("location: state", f"location: {world.folder}"))
    world.run(world.driver(direct=False), 0)
    world.run(world.driver(direct=True), 1)
    assert run_command_line(["status", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "at-least-once: no record is lost" in shown
    assert shown.count("committed at-least-once") == 1
    assert run_command_line(["status", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["mode"] == "at-least-once"
    assert [(each["state"], each["mode"]) for each in facts["checkpoints"]] == [
        ("committed", "at-least-once"),
        ("committed", "exactly-once"),
    ]


@pytest.mark.parametrize(
    ("connector", "reason"), [("sqlite", "write to the file itself"), ("mysql", ""), ("kafka", "")]
)
def test_on_a_cluster_tasks_need_no_log(tmp_path: Path, connector: str, reason: str) -> None:
    """So that they may run anywhere, but for those that write to a file."""
    for mode in ("at-least-once", "exactly-once"):
        path = write_spec(tmp_path, mode, "write-ahead-log")
        lines = path.read_text().splitlines()
        sinks = [line for line in lines if not line.startswith("  - {name") or f"connector: {connector}" in line]
        path.write_text("\n".join([*sinks, "spark: {master: 'spark://elsewhere:7077'}"]))
        spec = load_spec(path, {})
        if mode == "at-least-once" and not reason:
            check_sinks(spec)
        else:
            with pytest.raises(SpecError, match=reason if mode == "at-least-once" else "wait in files"):
                check_sinks(spec)


def test_merging_is_refused_with_the_reason_and_what_else_can_be_had(tmp_path: Path) -> None:
    path = write_spec(tmp_path, "at-least-once", "upsert, key: [value]")
    with pytest.raises(SpecMistakesError) as caught:
        load_spec(path, {})
    (mistake,) = caught.value.mistakes
    assert (mistake.path, mistake.line) == ("sinks[1].commit", 6)
    assert "a task that still runs" in mistake.found
    assert "checkpoint.mode: exactly-once" in mistake.allowed
    path.write_text(path.read_text().replace("at-least-once", "exactly-once"))
    assert load_spec(path, {}).sinks[1].commit == "upsert"
