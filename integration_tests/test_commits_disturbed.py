"""Commits that are sent in pieces are disturbed: a lock of a backup, errors in a piece, lost answers."""

from __future__ import annotations

import threading
import time

import pytest

from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.errors import ServerError
from connectors.sql.mysql.server import MySqlServer
from eos.errors import ConnectorError
from integration_tests.services import Services
from integration_tests.test_compliance import MySqlTarget
from integration_tests.test_parallel_commits import Case, Interrupted, commit_to_the_end


@pytest.fixture
def case(services: Services, database: str) -> Case:
    return Case(MySqlTarget(database, None), MySqlServer, lambda: None, lambda: None)


@pytest.mark.alone  # no other test can write meanwhile
@pytest.mark.timeout(300)
@pytest.mark.parametrize("held_s", [5, 30])  # shorter and longer than the server lets a statement wait
def test_a_backup_locks_the_server_in_the_middle_of_the_commits(
    services: Services, case: Case, monkeypatch: pytest.MonkeyPatch, held_s: int
) -> None:
    """Commits wait for the lock, or fail: then they are repeated. None is lost, and none stays."""
    written = case.prepare()
    admin = Session(services.admin_database_url)
    released = threading.Event()

    def unlock() -> None:
        time.sleep(held_s)
        admin.execute("UNLOCK TABLES")
        released.set()

    def lock(_: object) -> None:
        admin.execute("FLUSH TABLES WITH READ LOCK")
        threading.Thread(target=unlock).start()

    locked = Interrupted(monkeypatch, case.server, lock)
    said: list[object] = []
    for _ in range(20):
        try:
            said.append(set(case.committer.commit(0, written)))
        except ConnectorError as error:
            said.append(error.message)
            time.sleep(1)
        else:
            if released.is_set():
                break
    released.wait(60)
    admin.close()
    print(said)
    assert locked.happened == 1
    commit_to_the_end(case)
    case.assert_committed_once()
    case.driver.close()


def test_an_error_in_a_piece_leaves_the_connection_as_it_was(services: Services, case: Case) -> None:
    """It takes one statement at a time, in autocommit, and no answer is left on it."""
    written = case.prepare(6)
    asked = [each.transaction for each in written]
    case.committer.commit(0, [written[2]])
    with MySqlServer(case.target.url) as server:
        answers = list(server.commit_prepared(asked))
        assert [None if each is None else each.number for each in answers] == [None, None, 1397]
        assert server.execute("SELECT 7, @@autocommit") == [(7, 1)]
        with pytest.raises(ServerError) as found:
            server.execute("SELECT 1; SELECT 2")
        assert found.value.number == 1064
        assert list(server.commit_prepared(asked[3:])) == [None] * 3
        with pytest.raises(ServerError) as found:
            server.execute("SELECT 1; SELECT 2")
        assert found.value.number == 1064
    commit_to_the_end(case)
    case.assert_committed_once(6)
    case.driver.close()


@pytest.mark.parametrize("after", [0, 1, 3])
def test_an_exception_between_two_answers_of_a_piece(
    services: Services, case: Case, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """As a signal raises one. Later answers are read away, or the connection is closed."""
    from connectors.sql.mysql.connection import LoadingConnection

    written = case.prepare(6)
    server = MySqlServer(case.target.url)
    read, count = LoadingConnection._read_query_result, 0

    def interrupted(self: LoadingConnection, unbuffered: bool = False) -> int:
        nonlocal count
        count += 1
        if count == after + 1:
            raise KeyboardInterrupt
        return read(self, unbuffered)

    monkeypatch.setattr(LoadingConnection, "_read_query_result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        server.commit_prepared([each.transaction for each in written])
    monkeypatch.undo()
    try:
        found = server.execute("SELECT 7")
    except Exception as error:  # noqa: BLE001
        print("closed or refused:", repr(error))
    else:
        assert found == [(7,)], found
        with pytest.raises(ServerError):
            server.execute("SELECT 1; SELECT 2")
    server.close()
    commit_to_the_end(case)
    case.assert_committed_once(6)
    case.driver.close()
