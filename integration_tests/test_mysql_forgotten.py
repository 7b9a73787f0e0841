"""H24 on real servers: MariaDB answers OK for a branch whose connection is being closed, and does nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from connectors.sql.mysql import xa
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.server import MySqlServer
from connectors.sql.two_phase import permits
from integration_tests.harness.oracle import SinkTable
from integration_tests.mysql_support import IDS, PIPELINE, Bench, bench, numbers
from integration_tests.mysql_support import clean_up as clean_up
from twophase.ids import TransactionId
from twophase.participants import Prepared
from twophase.values import CommitOutcome, Committable

ROWS = 1_000

_RESET_CONNECTION = 0x1F


@pytest.fixture
def ids(database: str) -> Bench:
    return bench(database, "id BIGINT NOT NULL", IDS)


def half_closed(made: Bench) -> tuple[Committable, Session]:
    """What is prepared by a connection that is about to be closed: given up by the server, and not yet by InnoDB.

    The moment between the two lasts as long as the connection then does.
    """
    writer = made.writer(made.permitted())
    writer.write(numbers(0, ROWS))
    session = writer._session  # type: ignore[attr-defined]
    close, session.close = session.close, lambda: None
    committable = writer.prepare()
    session.driver._execute_command(_RESET_CONNECTION, b"")
    session.driver._read_ok_packet()
    session.close = close
    return committable, session


def told(made: Bench, verb: Callable[[MySqlServer, TransactionId], object]) -> Committable:
    """One that the server was told to end while its connection was being closed, by a driver that then died."""
    committable, session = half_closed(made)
    with MySqlServer(made.url) as server:
        verb(server, committable.transaction)
    session.close()
    return committable


def is_mariadb(made: Bench) -> bool:
    with Session(made.url) as session:
        return session.dialect.is_mariadb


def test_h24_what_is_said_to_be_committed_and_is_not_is_committed_after_all(ids: Bench) -> None:
    committable, session = half_closed(ids)
    outcomes = ids.committer.commit(0, [committable])
    assert outcomes == [CommitOutcome.RETRY_LATER if is_mariadb(ids) else CommitOutcome.COMMITTED]
    session.close()
    assert ids.commit(committable) in ([CommitOutcome.COMMITTED], [CommitOutcome.ALREADY_COMMITTED])
    assert (ids.count(), ids.witnesses(), ids.prepared()) == (ROWS, 1, [])


def test_h24_a_driver_that_was_told_so_and_died_leaves_its_successor_what_to_commit(ids: Bench) -> None:
    committable = told(ids, lambda server, each: server.commit_prepared([each]))
    ids.commit(committable)
    assert (ids.count(), ids.witnesses(), ids.prepared()) == (ROWS, 1, [])


def test_h24_the_oracle_sees_what_no_list_names(ids: Bench) -> None:
    table = SinkTable(ids.url, "rows_in")
    assert not table.is_held()
    committable = told(ids, lambda server, each: server.commit_prepared([each]))
    assert table.is_held() == is_mariadb(ids)
    ids.commit(committable)
    assert not table.is_held()


def test_h24_what_is_said_to_be_rolled_back_and_is_not_is_rolled_back_after_all(ids: Bench) -> None:
    committable = told(ids, MySqlServer.roll_back_prepared)
    ids.committer.abort([Prepared(committable.transaction, "")])
    assert (ids.count(), ids.witnesses(), ids.prepared()) == (0, 0, [])
    assert ids.query("SELECT id FROM rows_in FOR UPDATE") == []  # and nothing is locked


def test_h24_a_permit_is_closed_although_a_rollback_did_nothing(ids: Bench) -> None:
    committable, session = half_closed(ids)

    class Closing(MySqlServer):
        """The connection is closed right after the first rollback."""

        def roll_back_prepared(self, transaction: TransactionId) -> None:
            super().roll_back_prepared(transaction)
            session.close()

    with Closing(ids.url) as server:
        permits.revoke_permits(server, ids.sink.name, ids.incarnation, [committable.transaction.scope])
    assert (ids.count(), ids.witnesses(), ids.prepared()) == (0, 0, [])
    assert ids.query("SELECT COUNT(*) FROM eos_permit") == [(0,)]


def test_h24_a_rollback_that_did_nothing_and_a_driver_that_died_leave_nothing_locked(ids: Bench) -> None:
    told(ids, MySqlServer.roll_back_prepared)
    ids.committer.claim(ids.incarnation, ids.epoch + 1)  # no permit is left then that would name it
    ids.committer.abort(ids.prepared())
    assert (ids.count(), ids.witnesses(), ids.prepared()) == (0, 0, [])
    assert ids.query("SELECT id FROM rows_in FOR UPDATE") == []


def test_h24_a_reminder_beside_a_witness_that_stands_is_no_alarm(ids: Bench) -> None:
    committable = ids.prepare(ids.permitted(), 0, numbers(0, ROWS))
    ids.commit(committable)
    with Session(ids.url) as other:  # as a driver leaves it that reminds at the very moment when another one commits
        xa.start(other, committable.transaction)
        other.execute("INSERT IGNORE INTO eos_claim SELECT * FROM eos_claim LIMIT 1")
        xa.prepare(other, committable.transaction)
    ids.committer.abort([Prepared(committable.transaction, "")])
    assert (ids.count(), ids.witnesses(), ids.prepared()) == (ROWS, 1, [])


def test_h24_a_server_is_reminded_of_nothing_that_it_does_not_hold(ids: Bench) -> None:
    waiting = ids.prepare(ids.permitted(), 0, numbers(0, ROWS))
    gone = TransactionId(waiting.transaction.scope, waiting.transaction.sink, 1, 77)
    with MySqlServer(ids.url) as server:
        server.relist(waiting.transaction)
        server.relist(gone)
    claims = ids.query("SELECT pipeline, incarnation, epoch FROM eos_claim")
    assert [each.transaction for each in ids.prepared()] == [waiting.transaction]
    assert (ids.count(), claims) == (0, [(PIPELINE, ids.incarnation, ids.epoch)])


def test_r9_pruning_does_not_wait_for_a_driver_that_stands_still_amid_its_own(ids: Bench) -> None:
    committable = ids.prepare(ids.permitted(), 0, numbers(0, ROWS))
    ids.commit(committable)
    with Session(ids.url) as other:
        other.execute("START TRANSACTION")
        other.execute("DELETE FROM eos_witness")
        ids.committer.prune(ids.incarnation, 1)
    assert ids.witnesses() == 1
    ids.committer.prune(ids.incarnation, 1)
    assert ids.witnesses() == 0
