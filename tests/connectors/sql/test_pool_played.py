"""Connections that a worker keeps from task to task, on played servers: which are used again, and in which state."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from connectors.sql import bulk_writer, pool
from connectors.sql.bulk_writer import DirectBulkWriter
from connectors.sql.mysql import fit as of_mysql
from connectors.sql.mysql.writer import MySqlDirectWriter, MySqlWriter
from connectors.sql.postgres import fit as of_postgres
from connectors.sql.postgres.writer import PostgresDirectWriter, PostgresWriter
from connectors.sql.two_phase import writer as two_phase
from connectors.sql.two_phase.writer import TwoPhaseWriter
from eos.errors import BadRowError, PermitRevokedError, SinkUnavailableError
from tests.played.mysql import MARIADB, MYSQL, mysql
from tests.played.postgres import _BEGAN, postgres
from tests.played.script import Changed, Cut, Refused, Script
from tests.played.two_phase import SINK, transaction
from tests.waiting import until

RESETTING: Final = "^DISCARD ALL|^COM_RESET_CONNECTION"
SETTING: Final = "'lock_timeout'|innodb_lock_wait_timeout"
BEGINNING: Final = "^BEGIN|^START TRANSACTION|^XA START"
LOADING: Final = "^COPY|^LOAD DATA"
ENDING: Final = "^PREPARE TRANSACTION|^XA PREPARE|^COMMIT"
PERMIT: Final = "FROM eos_permit.*(FOR SHARE|LOCK IN SHARE MODE)"

Rows = TwoPhaseWriter | DirectBulkWriter  # type: ignore[type-arg]


@dataclass(frozen=True)
class Kind:
    """Tasks of one sink on a played server."""

    script: Script
    url: str
    open: Callable[[str, int], Rows]  # the URL, and how long the connection may do nothing
    refused: Refused

    def run(self, url: str = "", let_go_s: int = 600) -> int:
        """Run a task of three rows to its end; return how many connections there have been."""
        writer = self.open(url or self.url, let_go_s)
        writer.write(rows())
        end(writer)
        return self.script.connections


def rows() -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(3), pa.int64())})


def end(writer: Rows) -> None:
    """Prepare, or commit, what was written."""
    ended = writer.prepare() if isinstance(writer, TwoPhaseWriter) else writer.commit()
    assert ended.rows == 3


def write_and_end(writer: Rows) -> None:
    writer.write(rows())
    end(writer)


@contextmanager
def _postgres(of: type[PostgresWriter | PostgresDirectWriter]) -> Iterator[Kind]:
    plans = (of_postgres.ColumnPlan("n", "n", of_postgres.Form.PLAIN),)
    with postgres() as (url, script):
        yield Kind(
            script,
            url,
            lambda where, let_go_s: of(SINK, where, '"t"', plans, transaction(), let_go_s),
            Refused("22003", "out of range"),
        )


@contextmanager
def _mysql(of: type[MySqlWriter | MySqlDirectWriter], greeting: str = MYSQL) -> Iterator[Kind]:
    plans = (of_mysql.ColumnPlan("n", "n", of_mysql.Form.PLAIN),)
    with mysql(greeting) as (url, script):
        yield Kind(
            script,
            url,
            lambda where, let_go_s: of(SINK, where, "`t`", plans, transaction(), let_go_s),
            Refused(1366, "Incorrect value at row 2"),
        )


KINDS: Final[dict[str, Callable[[], object]]] = {
    "PostgreSQL-two-phase": lambda: _postgres(PostgresWriter),
    "PostgreSQL-at-least-once": lambda: _postgres(PostgresDirectWriter),
    "MySQL-at-least-once": lambda: _mysql(MySqlDirectWriter),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    """Each sink whose tasks leave their connections to later ones."""
    with KINDS[request.param]() as found:  # type: ignore[attr-defined]
        found.script.on(PERMIT, [(1,)])
        found.script.on(LOADING, Changed(3))
        yield found


@pytest.fixture
def prepared_on_mariadb() -> Iterator[Kind]:
    """The sink whose tasks never do."""
    with _mysql(MySqlWriter, MARIADB) as found:
        found.script.on(PERMIT, [(1,)])
        found.script.on(LOADING, Changed(3))
        yield found


def test_tasks_share_a_login_and_each_begins_with_settings_of_its_own(kind: Kind) -> None:
    assert [kind.run() for _ in range(3)] == [1, 1, 1]
    task = [SETTING, BEGINNING, LOADING, ENDING, RESETTING]
    assert kind.script.order(*task) == task * 3


def test_a_connection_that_prepared_on_mariadb_is_closed(prepared_on_mariadb: Kind) -> None:
    """Whatever is done with it, the branch stays with it; MariaDB lies about a branch whose connection was reset."""
    assert [prepared_on_mariadb.run() for _ in range(3)] == [1, 2, 3]
    assert prepared_on_mariadb.script.statements(RESETTING) == []
    assert pool._pool.idle == []


@pytest.mark.parametrize(("answer", "logins"), [([(1,)], [1, 1, 1]), ([(0,)], [1, 2, 3]), (None, [1, 2, 3])])
def test_a_connection_that_prepared_on_mysql_is_kept_where_its_branch_has_left_it(
    answer: list[tuple[int]] | None, logins: list[int]
) -> None:
    """As the very session says it, once it has prepared. Where the branch is still there the server refuses to say."""
    with _mysql(MySqlWriter) as found:
        found.script.on(PERMIT, [(1,)])
        found.script.on(LOADING, Changed(3))
        found.script.on("xa_detach_on_prepare", answer or Refused(1399, "XAER_RMFAIL: … in the  PREPARED state"))
        assert [found.run() for _ in range(3)] == logins
        assert len(found.script.statements(RESETTING)) == (3 if logins[-1] == 1 else 0)


def test_a_connection_of_a_task_that_failed_is_closed_with_the_idle_ones(kind: Kind) -> None:
    first, second = kind.open(kind.url, 600), kind.open(kind.url, 600)  # two sinks of one task
    for each in (first, second):
        each.write(rows())
    end(first)
    kind.script.on(LOADING, kind.refused)
    with pytest.raises(BadRowError):
        write_and_end(second)
    second.abort()
    assert pool._pool.idle == []
    kind.script.on(LOADING, Changed(3))
    assert kind.run() == 3


def test_a_connection_without_its_permit_writes_nothing_and_is_closed() -> None:
    """A task of an older driver that wakes up with a kept connection (R5)."""
    with _postgres(PostgresWriter) as kind:
        kind.script.on(PERMIT, [(1,)], [])
        kind.script.on(LOADING, Changed(3))
        assert kind.run() == 1
        older = kind.open(kind.url, 600)
        with pytest.raises(PermitRevokedError):
            older.write(rows())
        older.abort()
        assert kind.script.connections == 1
        assert len(kind.script.statements(LOADING)) == 1
        assert pool._pool.idle == []


@pytest.mark.parametrize("answer", [Cut(), Refused("57P05")], ids=["cut", "refused"])
def test_a_connection_that_the_server_has_ended_is_replaced(kind: Kind, answer: Cut | Refused) -> None:
    """It timed out, the server was restarted, or somebody has ended it."""
    if "mysql" in kind.url and isinstance(answer, Refused):
        answer = Refused(4031)
    assert kind.run() == 1
    kind.script.on(SETTING, answer, [("on", 4711, _BEGAN)])
    assert kind.run() == 2
    assert len(kind.script.statements(ENDING)) == 2
    assert kind.run() == 2


@pytest.mark.parametrize("answer", [Cut(), Refused("25001")], ids=["cut", "refused"])
def test_what_a_task_did_is_done_where_its_connection_cannot_be_reset(kind: Kind, answer: Cut | Refused) -> None:
    if "mysql" in kind.url and isinstance(answer, Refused):
        answer = Refused(1047)  # a proxy that does not know the command
    kind.script.on(RESETTING, answer)
    assert [kind.run() for _ in range(2)] == [1, 2]
    assert pool._pool.idle == []


def test_a_prepare_without_an_answer_keeps_no_connection(kind: Kind) -> None:
    kind.script.on(ENDING, Cut())
    writer = kind.open(kind.url, 600)
    writer.write(rows())
    with pytest.raises(SinkUnavailableError):
        end(writer)
    writer.abort()
    assert pool._pool.idle == []
    assert kind.script.statements(RESETTING) == []


def test_other_credentials_close_the_connection_and_get_their_own(kind: Kind) -> None:
    """So a password, or a token that has expired, is replaced."""
    assert kind.run() == 1
    assert kind.run(kind.url.replace("u:p@", "u:other@")) == 2
    assert len(pool._pool.idle) == 1
    assert kind.run() == 3


def test_another_login_is_not_shared_and_closes_nothing(kind: Kind) -> None:
    """Another user, another database, other options, or another time to do nothing in."""
    others = [kind.url.replace("u:p@", "v:p@"), kind.url.replace("/played", "/other")]
    assert kind.run() == 1
    for number, url in enumerate(others, 2):
        kind.run(url)
        assert kind.script.connections >= number
    before = kind.script.connections
    assert kind.run(let_go_s=700) == before + 1
    assert [kind.run(url) for url in (kind.url, *others)] == [before + 1] * 3
    assert len(pool._pool.idle) == 4


def test_a_certificate_or_password_in_a_file_that_has_changed_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords = tmp_path / "pgpass"
    passwords.write_text("*:*:*:*:p\n")
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    with _postgres(PostgresDirectWriter) as kind:
        kind.script.on(LOADING, Changed(3))
        assert [kind.run(), kind.run()] == [1, 1]
        passwords.write_text("*:*:*:*:another\n")
        assert kind.run() == 2
        assert len(pool._pool.idle) == 1


def test_a_connection_that_is_idle_for_too_long_is_closed(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no task to do it: a worker of a pipeline that waits for records is asked for nothing."""
    monkeypatch.setattr(pool, "IDLE_S", 0.2)
    assert kind.run() == 1
    until(lambda: not pool._pool.idle)
    until(lambda: pool._pool.closer is None)
    assert [kind.run(), kind.run()] == [2, 2]  # and so is the next one
    until(lambda: not pool._pool.idle)


def test_a_connection_is_replaced_when_it_is_old(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (two_phase, bulk_writer):
        monkeypatch.setattr(module, "_KEPT_S", 0)
    assert [kind.run(), kind.run()] == [1, 2]
    assert kind.script.statements(RESETTING) == []


def test_at_most_so_many_connections_are_kept(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "MOST_IDLE", 2)
    writers = [kind.open(kind.url, 600) for _ in range(4)]  # sinks of one task
    for each in writers:
        each.write(rows())
    for each in writers:
        end(each)
    assert kind.script.connections == 4
    assert len(pool._pool.idle) == 2


def test_a_forked_process_uses_no_connection_of_its_parents() -> None:
    """Two processes that speak on one socket get one another's answers."""
    with _postgres(PostgresWriter) as kind:
        kind.script.on(PERMIT, [(1,)])
        kind.script.on(LOADING, Changed(3))
        assert kind.run() == 1
        child = os.fork()
        if child == 0:
            os._exit(0 if not pool._own().idle and kind_is_new(kind) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert kind.script.connections == 2
        assert kind.run() == 2  # the parent's still answers


def kind_is_new(kind: Kind) -> bool:
    """In the child, whose played server is the parent's: whether its task took a connection of its own."""
    kind.run()
    return len(pool._own().idle) == 1


def test_the_connection_of_a_writer_is_of_the_login_at_its_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials that change while it writes are not taken for those that it logged in with."""
    with _postgres(PostgresDirectWriter) as kind:
        kind.script.on(LOADING, Changed(3))
        writer = kind.open(kind.url, 600)
        writer.write(rows())
        taken = writer._login
        monkeypatch.setattr(pool.Login, "of", lambda *_: pytest.fail("asked once more"))
        end(writer)
        assert [each.login for each in pool._pool.idle] == [taken]


def test_a_connection_to_mysql_that_was_reset_is_told_its_character_set() -> None:
    """The server's own is another one there: it forgets what a client has said after the login."""
    with _mysql(MySqlDirectWriter) as kind:
        kind.script.on(LOADING, Changed(3))
        kind.run(kind.url + "?init_command=SET%20@a%20%3D%201")
        order = kind.script.order(RESETTING, "^SET NAMES utf8mb4", "^SET @a")
        said = ["^SET NAMES utf8mb4", "^SET @a", "^SET NAMES utf8mb4"]  # the command may name another one
        assert order[-4:] == [RESETTING, *said]
