"""The file of a history: what goes in comes out, beside its writer and after its death; damage is told."""

from __future__ import annotations

import itertools
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from eos.errors import HistoryError
from spark_jobs.observe.history.entries import (
    Committed,
    Entry,
    Measured,
    Planned,
    Replayed,
    RunEnded,
    SinkCommitted,
    StateMeasured,
)
from spark_jobs.observe.history.model import AbortedAttempt, Event, Phases, RuleCount, StateOperator, StateSize, Totals
from spark_jobs.observe.history.store import History
from spark_jobs.observe.history.summary import missing
from spark_jobs.observe.history.writer import Retention
from tests.history_values import AT, PHASES, RUN, TASKS, checkpoint, completed, whole, writing
from tests.twophase_values import INCARNATION, record

ROOT = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


def write(path: Path, *entries: Entry, retention: Retention | None = None) -> None:
    with writing(path, retention) as writer:
        writer.write(entries, AT + 100.0)


def test_a_checkpoint_comes_out_as_it_went_in(path: Path) -> None:
    write(path, RUN, *whole(0), *whole(1), Planned(INCARNATION, 1, 0.02))
    newer, older = History(path).checkpoints()
    expected = replace(
        checkpoint(1),
        sinks=(replace(checkpoint(1).sinks[0], committed_at=AT + 1.55, commit_s=0.03),),
        is_committed=True,
        committed_at=AT + 1.6,
        lag=5,
        phases=replace(PHASES, plan_s=0.02),
        seq=newer.seq,
    )
    assert newer == expected
    assert newer.duration_s == pytest.approx(0.62)
    assert (older.checkpoint_id, older.phases.plan_s) == (0, None)
    detail = History(path).checkpoint(1)
    assert detail is not None
    assert (detail.checkpoint, detail.ranges, detail.acknowledgements) == (newer, record(1, 10, 20).ranges, TASKS)
    assert [each.records for each in detail.lag] == [5]
    assert History(path).totals() == Totals(AT, checkpoints=2, records=20, rows=6, bytes=60, runs=1)


def test_each_counts_once_whoever_tells_it(path: Path) -> None:
    """A start tells again what head knows: also what the history has, and what it has let go of for its age."""
    told_by_head = completed(1, session="", sinks=())
    write(path, *whole(1), told_by_head, completed(0))
    (found,) = History(path).checkpoints()
    assert (found.checkpoint_id, found.session, found.rows) == (1, "run1", 3)
    assert History(path).totals().checkpoints == 1


def test_pages_and_lives(path: Path) -> None:
    """After a reset numbers begin anew, and what was before it stays behind it."""
    again = "b" * 20
    write(path, *(entry for n in range(5) for entry in whole(n)), completed(0, incarnation=again), completed(1))
    history = History(path)
    first = history.checkpoints(limit=2)
    second = history.checkpoints(limit=10, before=first[-1].seq)
    ids = [(each.incarnation[0], each.checkpoint_id) for each in (*first, *second)]
    assert ids == [("b", 0), ("0", 4), ("0", 3), ("0", 2), ("0", 1), ("0", 0)]
    newest, old = history.checkpoint(0), history.checkpoint(0, INCARNATION)
    assert newest is not None
    assert old is not None
    assert (newest.checkpoint.incarnation, old.checkpoint.incarnation) == (again, INCARNATION)
    assert history.checkpoint(7) is None


def _left_out(number: int, **skipped: int) -> list[Entry]:
    return [completed(number), Measured(INCARNATION, number, PHASES, AT + number, TASKS, None, skipped)]


def test_what_sources_leave_out_is_counted_once_and_for_ever(path: Path) -> None:
    write(path, *_left_out(0, orders=3, clicks=4), *_left_out(1), *_left_out(2, orders=5))
    write(path, *_left_out(0, orders=3, clicks=4))
    history = History(path)
    assert [each.skipped for each in history.checkpoints()] == [5, 0, 7]
    assert history.totals().skipped == 12
    summary = history.summary()
    assert (summary.skipped, summary.skipped_share) == (12, 12 / 30)
    assert (history.summary(2).skipped, history.summary(0).skipped_share) == (5, None)
    detail = history.checkpoint(0)
    assert detail is not None
    assert detail.checkpoint.skipped == 7
    write(path, *_left_out(3, orders=1), retention=Retention(checkpoints=2))
    assert [each.skipped for each in history.checkpoints()] == [1, 5]
    assert history.totals().skipped == 13
    with closing(sqlite3.connect(path)) as connection:
        kept = connection.execute("SELECT * FROM skipped ORDER BY seq, source").fetchall()
    assert [row[1:] for row in kept] == [("clicks", 4), ("orders", 9), ("orders", 5), ("orders", 1)]


def _checked(number: int, *rules: RuleCount) -> list[Entry]:
    return [completed(number), Measured(INCARNATION, number, PHASES, AT + number, TASKS, None, {}, rules)]


def test_what_rules_of_steps_have_seen_is_counted_once_and_for_ever(path: Path) -> None:
    first, other = RuleCount("a", "r", "warn", 10, 3), RuleCount("b", "r", "skip", 7, 0)
    write(path, *_checked(0, first, other), *_checked(1), *_checked(2, replace(first, action="skip", failed=1)))
    write(path, *_checked(0, first, other))
    history = History(path)
    assert history.rules() == (RuleCount("a", "r", "skip", 20, 4), other)
    details = [history.checkpoint(number) for number in range(3)]
    assert [each.rules for each in details if each is not None] == [
        (first, other),
        (),
        (RuleCount("a", "r", "skip", 10, 1),),
    ]
    write(path, *_checked(3, first), retention=Retention(checkpoints=1))
    assert history.rules()[0] == RuleCount("a", "r", "warn", 30, 7)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM expectation WHERE seq >= 0").fetchone() == (1,)


def test_the_state_after_a_checkpoint_goes_with_it(path: Path) -> None:
    def measured(number: int, rows: int, incarnation: str = INCARNATION) -> list[Entry]:
        operators = tuple(StateOperator(at, "", "dedupe", rows + at, 1, 2, 3, 4, 5) for at in range(2))
        found = completed(number, incarnation=incarnation)
        return [found, StateMeasured(incarnation, number, operators)]

    history = History(path)
    write(path, completed(0))
    assert history.state() is None
    write(path, *measured(1, 10), *measured(2, 20), *measured(2, 30))
    found = history.state()
    assert found is not None
    assert (found.checkpoint_id, [each.number for each in found.by_operator]) == (2, [0, 1])
    assert (found.rows, found.operators, found.memory_bytes) == (30 + 31, 2, 8)
    before = history.checkpoint(1)
    assert before is not None
    assert before.state == (
        StateOperator(0, "", "dedupe", 10, 1, 2, 3, 4, 5),
        StateOperator(1, "", "dedupe", 11, 1, 2, 3, 4, 5),
    )
    write(path, *measured(3, 40), retention=Retention(checkpoints=1))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM state").fetchone() == (2,)
    write(path, completed(0, incarnation="b" * 20))
    assert history.state() is None, "a reset leaves no state"
    write(path, *measured(1, 7, "b" * 20))
    assert history.state() == StateSize(1, tuple(replace(each, rows=7 + each.number) for each in found.by_operator))


def test_a_file_of_an_earlier_version_is_read_and_written_on(path: Path) -> None:
    """It has no table of what was left out, and goes back to that version when the user does."""
    write(path, *whole(0))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TABLE skipped")
        connection.execute("DROP TABLE expectation")
        connection.execute("DROP TABLE state")
    history = History(path)
    assert (history.rules(), history.state()) == ((), None)
    assert ([each.skipped for each in history.checkpoints()], history.totals().skipped) == ([0], 0)
    write(path, *_left_out(1, orders=2))
    assert ([each.skipped for each in history.checkpoints()], history.totals().skipped) == ([2, 0], 2)


def test_sinks_that_commit_later(path: Path) -> None:
    """While sinks are behind, a checkpoint waits for its turn; head says it of several at once."""
    measured = Measured(INCARNATION, 0, replace(PHASES, wait_s=None, commit_s=None), None, TASKS, None)
    write(path, completed(0), measured, completed(1))
    assert [(each.is_committed, each.duration_s) for each in History(path).checkpoints()] == [(False, None)] * 2
    commits = [SinkCommitted(INCARNATION, n, "warehouse", AT + 5.0, 0.5) for n in range(2)]
    write(path, *commits, Committed(INCARNATION, 1, AT + 6.0))
    newer, older = History(path).checkpoints()
    assert (older.committed_at, newer.committed_at) == (AT + 6.0, AT + 6.0)
    assert older.phases.commit_s == 0.5
    assert older.phases.wait_s == pytest.approx(6.0 - 0.5 - 0.01 - 0.5)
    write(path, completed(2), Committed(INCARNATION, 2, None))
    assert [(each.is_committed, each.committed_at) for each in History(path).checkpoints(1)] == [(True, None)]


def test_what_happened(path: Path) -> None:
    failure = Event(AT, "failure", "no space", "PrepareError", "free some", 3, run_id="run1")
    restart = Event(AT + 1, "restart", "in 1.0 s", checkpoint_id=3, delay_s=1.0, facts={"tries": 2})
    aborted = AbortedAttempt(INCARNATION, 3, 1, 1, AT, "PrepareError", "no space")
    write(path, RUN, failure, restart, aborted, aborted, RunEnded("run1", AT + 2, "failed"), Replayed(INCARNATION, 3))
    history = History(path)
    newest, oldest = history.events()
    assert (newest, oldest) == (replace(restart, seq=2), replace(failure, seq=1))
    assert history.events(kinds=["failure"]) == (oldest,)
    assert history.events(before=2) == (oldest,)
    assert history.runs() == (replace(RUN, ended_at=AT + 2, ended="failed"),)
    assert history.aborted() == (aborted,), "also of a checkpoint that was never decided"
    totals = history.totals()
    assert (totals.failures, totals.restarts, totals.runs) == (1, 1, 1)


def test_a_run_without_an_end_was_killed_unless_it_lives(path: Path) -> None:
    """The last trace of a killed run is a checkpoint or an event, before the next run began."""
    silent, second, third, told, living = (replace(RUN, run_id=f"run{n}", started_at=AT + 100 * n) for n in range(2, 7))
    write(path, replace(RUN, run_id="first"), RunEnded("first", AT + 1, "failed"), silent)
    write(path, completed(0, decided_at=AT + 250), completed(1, decided_at=AT + 270))
    write(path, second, Event(AT + 350, "state", "running", run_id="run3"), third)
    write(path, told, Event(AT + 501, "state", "stopped", run_id="run5"), living)
    history = History(path)
    found = history.killed({"run6"})
    assert [each.run.run_id for each in found] == ["run4", "run3", "run2"]
    assert [each.last_at for each in found] == [AT + 400, AT + 350, AT + 270]
    assert [each.run.run_id for each in history.killed(set(), 1)] == ["run6"]
    assert History(path.with_name("nothing")).killed(set()) == ()


def test_series_have_a_bucket_for_every_stretch(path: Path) -> None:
    write(path, *(entry for n in (0, 1, 2, 25) for entry in whole(n)))
    buckets = History(path).series(AT, AT + 30, 10.0)
    assert [each.checkpoints for each in buckets] == [3, 0, 1]
    assert [each.records for each in buckets] == [30, 0, 10]
    assert buckets[0].duration_s == pytest.approx(0.6)
    assert buckets[1].duration_s is None
    assert buckets[0].phases.read_s == pytest.approx(0.2)
    assert buckets[0].lag == 5
    write(path, completed(26), Measured(INCARNATION, 26, PHASES, AT + 27, TASKS, None))  # its source did not say


def test_what_is_old_or_too_much_goes(path: Path) -> None:
    entries = [entry for n in range(250) for entry in whole(n)]
    write(path, *entries, retention=Retention(checkpoints=150, age_s=1e9))
    write(path, *whole(250), retention=Retention(checkpoints=150, age_s=1e9))  # a start lets go of what is too much
    found = History(path).checkpoints(1000)
    assert [each.checkpoint_id for each in found] == list(range(250, 100, -1))
    assert all(each.sinks for each in found)
    assert History(path).totals().checkpoints == 251
    write(path, *whole(251), retention=Retention(checkpoints=150, age_s=100.0 - 140.0))
    assert [each.checkpoint_id for each in History(path).checkpoints(1000)] == list(range(251, 139, -1))
    write(path, *whole(252), retention=Retention(checkpoints=150, age_s=100.0 - 240.0))
    found = History(path).checkpoints(1000)
    assert [each.checkpoint_id for each in found] == list(range(252, 152, -1)), "at any age"
    with closing(sqlite3.connect(path)) as database:
        for table in ("sink", "detail"):
            assert database.execute(f"SELECT COUNT(DISTINCT seq) FROM {table}").fetchone() == (100,)


def test_a_state_is_known_for_as_long_as_it_lasts(path: Path) -> None:
    """A pipeline that runs for months tells that it does only once."""
    write(path, Event(AT, "state", "starting"), Event(AT + 1, "failure", "no space"), Event(AT + 2, "state", "running"))
    write(path, Event(AT + 99, "request", "a checkpoint"), retention=Retention(age_s=10.0))
    assert [each.message for each in History(path).events()] == ["a checkpoint", "running"]


def test_a_pipeline_that_stood_still_for_long_has_its_history_on(path: Path) -> None:
    """Its start tells again what head knows, however old: each counts once, and the history goes on behind it."""
    write(path, RUN, *whole(0), *whole(1))
    for number in (2, 3):
        retention = Retention(age_s=1.0)
        write(path, RUN, retention=retention)
        write(path, completed(0), completed(1), *whole(number), retention=retention)
    assert [each.checkpoint_id for each in History(path).checkpoints()] == [3, 2, 1, 0]
    totals = History(path).totals()
    assert (totals.checkpoints, totals.records, totals.rows) == (4, 40, 12)


def test_a_history_that_is_not_there_is_empty_and_looking_makes_nothing(path: Path) -> None:
    history = History(path)
    assert (history.checkpoints(), history.checkpoint(0), history.totals()) == ((), None, Totals())
    assert (history.events(), history.runs(), history.aborted()) == ((), (), ())
    assert history.summary().checkpoints == 0
    assert list(path.parent.iterdir()) == []
    write(path, *whole(0))
    assert [each.checkpoint_id for each in history.checkpoints()] == [0]
    assert list(path.parent.iterdir()) == [path], "a reader leaves nothing beside it either"


@contextmanager
def another_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Which writes without end."""
    command = [sys.executable, "-m", "tests.history_values", str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def written(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_readers_beside_the_writer_see_whole_checkpoints_and_none_vanish(path: Path) -> None:
    history, seen = History(path), -1
    with another_process(path) as process:
        while seen < 60:
            told = written(process)
            found = history.checkpoints(1000)
            assert [each.checkpoint_id for each in found] == list(range(len(found) - 1, -1, -1))
            assert found[0].checkpoint_id >= max(told, seen), "what was written is seen, and stays"
            assert all(each.is_committed and each.rows == 3 and each.phases == PHASES for each in found)
            seen = found[0].checkpoint_id


def test_a_writer_that_is_killed_leaves_all_that_it_has_written(path: Path) -> None:
    ends = []
    for _ in range(3):
        with another_process(path) as process:
            told = next(each for each in iter(lambda: written(process), None) if each >= 20)
            process.kill()
        found = History(path).checkpoints(10_000)
        assert [each.checkpoint_id for each in found] == list(range(len(found) - 1, -1, -1))
        assert len(found) > told
        ends.append(len(found))
        assert History(path).checkpoints(1)[0].rows == 3
    assert History(path).totals().checkpoints == max(ends), "each once, over three writers"


@pytest.mark.parametrize(
    ("content", "said", "remedy"),
    [
        (b"not a database at all" * 100, "file is not a database", "it is damaged: move it away"),
        (None, "is a database, and not a history of a pipeline", "move it away, and a history is begun in its place"),
        (b"newer", "has format 2; this version reads 1", "use the version that wrote it"),
    ],
)
def test_damage_and_what_is_not_ours(path: Path, content: bytes | None, said: str, remedy: str) -> None:
    if content == b"newer":
        write(path, *whole(0))
    with closing(sqlite3.connect(path)) as database:
        if content is None:
            database.execute("CREATE TABLE t (a)")
        elif content == b"newer":
            database.execute("PRAGMA user_version=2")
        else:
            path.write_bytes(content)
    before = path.read_bytes()
    for use in (History(path).totals, lambda: write(path, *whole(1))):
        with pytest.raises(HistoryError) as caught:
            use()
        assert said in caught.value.message
        assert str(path) in caught.value.message
        assert remedy in caught.value.remedy
    assert path.read_bytes() == before


def test_pages_that_are_damaged_are_told(path: Path) -> None:
    write(path, *(entry for n in range(300) for entry in whole(n)))
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(HistoryError, match="malformed"):
        History(path).checkpoints()


def test_gaps_are_seen(path: Path) -> None:
    write(path, *itertools.chain(whole(0), whole(1), whole(4), whole(6)), completed(0, incarnation="b" * 20))
    assert missing(History(path).checkpoints()) == ((INCARNATION, 5, 5), (INCARNATION, 2, 3))


def test_phases_that_were_not_measured_stay_unknown(path: Path) -> None:
    write(path, completed(0))
    (found,) = History(path).checkpoints()
    assert found.phases == Phases()
    assert (found.is_committed, found.duration_s, found.lag) == (False, None, None)
