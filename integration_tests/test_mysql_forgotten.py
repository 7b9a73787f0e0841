"""H24 on real servers: MariaDB answers OK for a branch whose connection is being closed, and does nothing."""

from __future__ import annotations

import time

import pytest

from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.forgotten import remind
from connectors.sql.mysql.server import MySqlServer
from connectors.sql.two_phase import permits, undoing
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


def half_closed(made: Bench, task: int = 0) -> tuple[Committable, Session]:
    """What is prepared by a connection that is about to be closed: given up by the server, and not yet by InnoDB.

    The moment between the two lasts as long as the connection then does.
    """
    writer = made.writer(made.permitted())
    writer.write(numbers(task * ROWS, (task + 1) * ROWS))
    session = writer._session  # type: ignore[attr-defined]
    close, session.close = session.close, lambda: None
    committable = writer.prepare()
    session.driver._execute_command(_RESET_CONNECTION, b"")
    session.driver._read_ok_packet()
    session.close = close
    return committable, session


def is_mariadb(made: Bench) -> bool:
    with Session(made.url) as session:
        return session.dialect.is_mariadb


def test_h24_what_is_said_to_be_committed_and_is_not_is_committed_after_all(ids: Bench) -> None:
    committable, session = half_closed(ids)
    outcomes = ids.committer.commit(0, [committable])
    assert outcomes == [CommitOutcome.RETRY_LATER if is_mariadb(ids) else CommitOutcome.COMMITTED]
    session.close()
    deadline = time.monotonic() + 10
    while outcomes == [CommitOutcome.RETRY_LATER] and time.monotonic() < deadline:
        outcomes = ids.committer.commit(0, [committable])
    assert outcomes in ([CommitOutcome.COMMITTED], [CommitOutcome.ALREADY_COMMITTED])
    assert (ids.count(), ids.witnesses(), ids.prepared()) == (ROWS, 1, [])


def test_h24_a_driver_that_was_told_so_and_died_leaves_its_successor_what_to_commit(ids: Bench) -> None:
    committable, session = half_closed(ids)
    with MySqlServer(ids.url) as told:
        told.commit_prepared(committable.transaction)
    session.close()
    deadline = time.monotonic() + 10
    while ids.committer.commit(0, [committable]) == [CommitOutcome.RETRY_LATER] and time.monotonic() < deadline:
        pass
    assert (ids.count(), ids.witnesses(), ids.prepared()) == (ROWS, 1, [])


def test_h24_what_is_said_to_be_rolled_back_and_is_not_is_rolled_back_after_all(ids: Bench) -> None:
    committable, session = half_closed(ids)
    with MySqlServer(ids.url) as told:
        told.roll_back_prepared(committable.transaction)
    session.close()
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
        permits.evict(server, ids.sink.name, ids.incarnation, [committable.transaction.scope])
    assert (ids.count(), ids.witnesses(), ids.prepared()) == (0, 0, [])
    assert ids.query("SELECT COUNT(*) FROM eos_permit") == [(0,)]


def test_h24_reminding_a_server_changes_nothing_where_it_has_forgotten_nothing(ids: Bench) -> None:
    waiting = ids.prepare(ids.permitted(), 0, numbers(0, ROWS))
    remind(ids.url, waiting.transaction)
    assert [each.transaction for each in ids.prepared()] == [waiting.transaction]
    gone = TransactionId(waiting.transaction.scope, waiting.transaction.sink, 1, 77)
    with MySqlServer(ids.url) as server:
        server.remind(gone)
        undoing.roll_back(server, ids.sink.name, [gone])
    assert [each.transaction for each in ids.prepared()] == [waiting.transaction]
    claims = ids.query("SELECT pipeline, incarnation, epoch FROM eos_claim")
    assert (ids.count(), claims) == (0, [(PIPELINE, ids.incarnation, ids.epoch)])
