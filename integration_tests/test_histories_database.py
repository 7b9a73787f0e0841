"""Histories that begin with the database of a two-phase sink: stopped writers, global locks, strangers (H17-H19)."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from connectors.sql.mysql import engine, xa, zombie_connections
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.server import mysql_committer
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.two_phase.committer import TwoPhaseCommitter
from eos.errors import ConnectorError, TargetError
from integration_tests.harness import session
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.mysql_support import IDS, PIPELINE, Bench, bench, numbers
from integration_tests.mysql_support import clean_up as clean_up
from integration_tests.services import Services
from twophase.ids import TransactionId, sink_key
from twophase.values import CommitOutcome

pytestmark = pytest.mark.in_turns

_RECORDS = 4 * CHECKPOINT_RECORDS
_THEIRS = "X'00ff27c3a9',X'80fe',7"
"""The id of somebody else's transaction; its bytes are no text in any encoding."""


@pytest.fixture
def ids(database: str) -> Bench:
    return bench(database, "id BIGINT NOT NULL", IDS)


def hold_open(url: str, transaction: TransactionId, said: multiprocessing.Queue[str]) -> None:
    """Write and say so, then go on writing for ever: whoever reads this wants to stop it in the middle."""
    writer = MySqlSink("warehouse", url, "rows_in").open(IDS).writer(transaction)
    writer.write(numbers(0, 10))
    said.put("writing")
    try:
        while True:
            time.sleep(0.1)
            writer.write(numbers(0, 10))
    except ConnectorError as error:
        said.put(type(error).__name__)


@pytest.mark.parametrize("by", ["a claim", "a close"])
def test_h17_the_open_attempt_of_a_stopped_process_is_ended_by_kill(ids: Bench, by: str) -> None:
    """Its connection stands and its locks with it, until somebody ends it: the server alone would after minutes."""
    scope = ids.permitted()
    context = multiprocessing.get_context("spawn")
    said: multiprocessing.Queue[str] = context.Queue()
    child = context.Process(target=hold_open, args=(ids.url, TransactionId(scope, sink_key("warehouse"), 0, 1), said))
    child.start()
    try:
        assert child.pid is not None
        assert said.get(timeout=60) == "writing"
        os.kill(child.pid, signal.SIGSTOP)
        started = time.monotonic()
        if by == "a claim":
            newer = mysql_committer("warehouse", ids.url, PIPELINE)
            newer.claim(ids.incarnation, 2)
            newer.close()
        else:
            ids.committer.revoke(scope)
        assert time.monotonic() - started < 15
        assert ids.query("SELECT COUNT(*) FROM eos_permit") == [(0,)]

        os.kill(child.pid, signal.SIGCONT)
        assert said.get(timeout=60) in {"SinkUnavailableError", "PermitRevokedError"}
        child.join(30)
    finally:
        child.kill()  # also one that is stopped
    assert (ids.count(), ids.prepared()) == (0, [])


def test_h17_each_of_many_writers_is_found_whatever_its_number(database: str) -> None:
    """Each holds a name of its own, which the limits of a name and of a row's columns leave for 4,096 of them."""
    members = [*range(0, 128 * 7, 128), *[1023] * 4]
    with Session(database) as driver:
        writers = [Session(database) for _ in members]
        for writer, member in zip(writers, members, strict=True):
            zombie_connections.mark(writer, "permit 7", member)
        stranger = Session(database)
        zombie_connections.mark(stranger, "permit 8", 1)
        assert zombie_connections.kill(driver, "permit 7") == len(members)
        assert [writer.answers() for writer in writers] == [False] * len(members)
        assert stranger.answers()
        for each in (*writers, stranger):
            each.close()


@pytest.mark.timeout(600)
def test_h17_a_task_that_is_stopped_while_it_writes(pipeline: Pipeline) -> None:
    """The checkpoint runs past its timeout, is aborted in spite of the attempt that does not answer, and run again."""
    pipeline.spec["checkpoint"]["timeout"] = "20s"
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["writing@1"])
    worker = process.await_point("writing@1")
    os.kill(worker, signal.SIGSTOP)
    process.release("writing@1")
    process.succeed()
    assert "it ran longer than checkpoint.timeout" in process.output()
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(600)
def test_h17_a_driver_frozen_with_its_tasks_is_superseded_and_then_fenced(pipeline: Pipeline) -> None:
    """Nobody of the frozen tree can end its open attempt; its successor does, and it finds that out when it thaws."""
    pipeline.workload.produce(_RECORDS)
    frozen = pipeline.start(arm=["writing@1"])
    tree = os.getsid(frozen.await_point("writing@1"))
    session.stop(tree)
    pipeline.catch_up(take_over=True)
    pipeline.assert_exact(at_least=_RECORDS)

    frozen.release("writing@1")
    session.go_on(tree)
    frozen.fail("fenced: ", "another driver of this pipeline has started since")
    pipeline.assert_exact(at_least=_RECORDS)


@contextmanager
def read_locked(services: Services) -> Iterator[None]:
    """FLUSH TABLES WITH READ LOCK, as a backup takes it: no commit of anybody's gets through."""
    with Session(services.admin_database_url) as backup:
        backup.execute("FLUSH TABLES WITH READ LOCK")
        try:
            yield
        finally:
            backup.execute("UNLOCK TABLES")


@pytest.mark.alone
def test_h17_a_commit_under_a_global_read_lock_is_given_up_for_now(
    ids: Bench, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    committable = ids.prepare(ids.permitted(), 0, numbers(0, 10))
    time.sleep(0.3)
    assert engine._SESSION["lock_wait_timeout"] in range(61)  # the server's own is a year
    monkeypatch.setitem(engine._SESSION, "lock_wait_timeout", 1)
    ids.committer.close()
    with read_locked(services):
        started = time.monotonic()
        assert ids.committer.commit(0, [committable]) == [CommitOutcome.RETRY_LATER]
        assert time.monotonic() - started < 5
    assert ids.committer.commit(0, [committable])[0] in (CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED)
    assert ids.count() == 10


@pytest.mark.alone
@pytest.mark.timeout(600)
def test_h17_a_run_waits_for_a_global_read_lock_and_goes_on(pipeline: Pipeline, services: Services) -> None:
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["after-decide@1"])
    process.await_point("after-decide@1")
    with read_locked(services):
        process.release("after-decide@1")
        time.sleep(2)
        assert pipeline.table.count() == CHECKPOINT_RECORDS
    process.succeed()
    assert pipeline.head.epoch == 1
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(600)
def test_h18_a_run_and_its_recovery_beside_a_foreign_binary_id(pipeline: Pipeline) -> None:
    pipeline.workload.produce(_RECORDS)
    url = pipeline.table.url
    with Session(url) as stranger:
        stranger.execute("CREATE TABLE theirs (v INT) ENGINE = InnoDB")
        for statement in (f"XA START {_THEIRS}", "INSERT INTO theirs VALUES (1)", f"XA END {_THEIRS}"):
            stranger.execute(statement)
        stranger.execute(f"XA PREPARE {_THEIRS}")
    try:
        process = pipeline.start(arm=["before-decide@1"])
        process.await_point("before-decide@1")
        process.kill()
        pipeline.catch_up()
        pipeline.assert_exact(at_least=_RECORDS)
        with Session(url) as admin:
            assert _THEIRS in {branch.literal for branch in xa.recover(admin)}
    finally:
        with Session(url) as admin:
            admin.execute(f"XA ROLLBACK {_THEIRS}")


def test_h19_a_table_that_cannot_roll_back_is_no_target(database: str) -> None:
    with Session(database) as owner:
        owner.execute("CREATE TABLE keeps_all (id BIGINT NOT NULL) ENGINE = MyISAM")
    with pytest.raises(TargetError, match="MyISAM"):
        MySqlSink("warehouse", database, "keeps_all").open(IDS)


def test_h4_a_loop_of_concurrent_commits_never_takes_a_branch_for_lost(ids: Bench) -> None:
    """Each branch by four committers at once, again until all agree: the locking read is right every time."""
    branches, committers = 60, 4
    scope = ids.permitted()
    committables = [ids.prepare(scope, task, numbers(task, task + 1)) for task in range(branches)]
    ours = [mysql_committer("warehouse", ids.url, PIPELINE) for _ in range(committers)]
    barrier = threading.Barrier(committers)

    def race(committer: TwoPhaseCommitter) -> list[CommitOutcome]:
        outcomes: list[CommitOutcome] = []
        for committable in committables:
            barrier.wait()
            while (outcome := committer.commit(0, [committable])[0]) is CommitOutcome.RETRY_LATER:
                pass
            outcomes.append(outcome)
        return outcomes

    with ThreadPoolExecutor(committers) as pool:
        by_committer = list(pool.map(race, ours))
    landed = {CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED}
    assert {outcome for outcomes in by_committer for outcome in outcomes} == landed
    assert (ids.count(), ids.witnesses()) == (branches, branches)
    for each in ours:
        each.close()
