"""`eos doctor` and the protocol's own tables on a real server."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pyarrow as pa
import pytest
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import make_url

from connectors.sql import tables
from connectors.sql.mysql import xa
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.errors import ServerError
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.two_phase import permits
from eos.errors import TargetError
from integration_tests.mysql_support import IDS, bench
from integration_tests.mysql_support import clean_up as clean_up
from integration_tests.services import Services


def test_a_fitting_server_and_table_pass(database: str) -> None:
    bench(database, "id BIGINT", IDS)
    findings = MySqlSink("warehouse", database, "rows_in").check(IDS)
    wrong = [each for each in findings if not each.ok and each.fatal]
    assert wrong == []
    checks = {each.check.removeprefix("warehouse: ") for each in findings}
    assert {"reachable", "version", "innodb_flush_log_at_trx_commit", "XA RECOVER", "target", "columns"} <= checks
    assert {"product", "XA", "KILL", "LOAD DATA LOCAL", "session settings"} <= checks
    assert len(checks) >= 16


def test_each_problem_is_a_finding_with_a_remedy_and_no_exception(database: str) -> None:
    with Session(database) as session:
        session.execute("CREATE TABLE old (id INT) ENGINE = MyISAM")
    findings = MySqlSink("warehouse", database, "old").check(pa.schema([("other", pa.int32())]))
    wrong = {each.check: each for each in findings if not each.ok and each.fatal}
    assert "MyISAM" in wrong["warehouse: target"].detail
    assert all(each.remedy for each in wrong.values())
    missing = MySqlSink("warehouse", database, "nothing").check(None)
    assert any("no table 'nothing'" in each.detail for each in missing if not each.ok)


def test_a_foreign_prepared_branch_is_a_warning(database: str) -> None:
    theirs = "X'ff00',X'fe',3"
    made = bench(database, "id BIGINT", IDS)
    with Session(database) as session:
        for statement in (f"XA START {theirs}", "INSERT INTO rows_in VALUES (1)", f"XA END {theirs}"):
            session.execute(statement)
        session.execute(f"XA PREPARE {theirs}")
    try:
        findings = made.sink.check(None)
        (warning,) = [each for each in findings if each.check.endswith("foreign prepared transactions")]
        assert (warning.ok, warning.fatal) == (False, False)
        assert theirs in warning.detail
    finally:
        made.query(f"XA ROLLBACK {theirs}")
        made.committer.close()


def test_the_printed_ddl_makes_the_tables(database: str) -> None:
    """What an administrator runs where the pipeline's user may not create tables."""
    with Session(database) as session:
        for statement in tables.ddl(permits.TABLES, mysql.dialect()).split(";"):
            if statement.strip():
                session.execute(statement)
        tables.ensure(session, permits.TABLES, "here")
        for table in ("eos_claim", "eos_permit", "eos_slot", "eos_witness"):
            (_, ddl) = session.execute(f"SHOW CREATE TABLE {table}")[0]
            assert "ENGINE=InnoDB" in ddl
            assert "ascii_bin" in ddl


@pytest.fixture
def limited(services: Services, database: str) -> Iterator[str]:
    """The URL of a user who may read and write in this database and nothing else."""
    name, schema = f"eos_{secrets.token_hex(5)}", make_url(database).database
    with Session(services.admin_database_url) as admin:
        admin.execute(f"CREATE USER {name} IDENTIFIED BY 'only-for-this-test'")
        admin.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON `{schema}`.* TO {name}")
    url = make_url(database).set(username=name, password="only-for-this-test")
    yield url.render_as_string(hide_password=False)
    with Session(services.admin_database_url) as admin:
        admin.execute(f"DROP USER {name}")


def test_a_user_who_may_not_create_tables_is_shown_their_ddl(database: str, limited: str) -> None:
    with Session(database) as session:
        session.execute("CREATE TABLE rows_in (id BIGINT) ENGINE = InnoDB")
    committer = MySqlSink("warehouse", limited, "rows_in").open(IDS).committer("orders")
    with pytest.raises(TargetError) as failure:
        committer.inspect("x" * 20, ())
    assert "CREATE TABLE IF NOT EXISTS eos_witness" in failure.value.remedy
    with Session(database) as session:
        tables.ensure(session, permits.TABLES, "here")
    assert committer.inspect("x" * 20, ()).claim_epoch == 0
    committer.close()


@pytest.mark.only_on("MySQL", "MariaDB asks for no privilege")
def test_without_the_privilege_to_recover_doctor_and_committer_say_which(database: str, limited: str) -> None:
    committer = MySqlSink("warehouse", limited, "rows_in").committer("orders")
    with pytest.raises(TargetError, match="XA_RECOVER_ADMIN"):
        committer.prepared("x" * 20)
    findings = {each.check: each for each in MySqlSink("warehouse", limited, "rows_in").check(None)}
    assert not findings["warehouse: XA RECOVER"].ok
    assert "GRANT XA_RECOVER_ADMIN" in findings["warehouse: XA RECOVER"].remedy


def test_replicas_that_the_user_may_not_list_are_no_error(database: str, limited: str) -> None:
    """MySQL asks for a privilege; MariaDB tells everybody how many there are."""
    (found,) = (each for each in MySqlSink("warehouse", limited, "t").check(None) if "replication" in each.check)
    with Session(database) as session:
        unknown = "asynchronous; replicas cannot be listed by this user"
        expected = "none: no replica is connected" if session.dialect.is_mariadb else unknown
    assert (found.ok, found.detail) == (True, expected)


@pytest.mark.parametrize("writers", [1, 10**6])
def test_tasks_that_a_start_could_not_end_are_a_warning(database: str, writers: int) -> None:
    with Session(database) as session:
        session.execute("CREATE TABLE rows_in (id BIGINT) ENGINE = InnoDB")
    found = {each.check.removeprefix("w: "): each for each in MySqlSink("w", database, "rows_in").check(IDS, writers)}
    assert ("hanging tasks" in found) == (writers == 10**6)
    assert not any(each.fatal for each in found.values() if each.check == "w: hanging tasks")


def test_the_probes_leave_nothing(database: str) -> None:
    made = bench(database, "id BIGINT", IDS)
    findings = {each.check.removeprefix("warehouse: "): each for each in made.sink.check(IDS, 2)}
    for check in ("XA", "KILL", "LOAD DATA LOCAL"):
        assert findings[check].ok, findings[check]
    assert (made.count(), made.prepared()) == (0, [])
    with Session(database) as session:
        assert not [each for each in xa.recover(session) if each.gtrid.startswith(b"eos-doctor")]


def test_a_server_that_takes_no_local_file_though_it_says_so(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a proxy: the statement is refused. Said as fatal, since a run would fail there, with what to do."""
    made = bench(database, "id BIGINT", IDS)

    def refuse(_session: Session, _statement: str, _payload: object = None) -> int:
        raise ServerError(1148, "The used command is not allowed")

    monkeypatch.setattr(Session, "send", refuse)
    findings = {each.check.removeprefix("warehouse: "): each for each in made.sink.check(IDS)}
    local = findings["LOAD DATA LOCAL"]
    assert (local.ok, local.fatal) == (False, True)
    assert "local_infile = OFF" in local.remedy


def test_a_server_without_xa_is_told_with_the_variant_to_take(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = bench(database, "id BIGINT", IDS)
    execute = Session.execute

    def refuse(session: Session, statement: str, *values: object) -> list[tuple[object, ...]]:
        if statement.startswith("XA START"):
            raise ServerError(1235, "VT12001: unsupported: XA")
        return execute(session, statement, *values)

    monkeypatch.setattr(Session, "execute", refuse)
    findings = {each.check.removeprefix("warehouse: "): each for each in made.sink.check(IDS)}
    assert (findings["XA"].ok, findings["XA"].fatal, "VT12001" in findings["XA"].detail) == (False, True, True)
    assert "commit: upsert" in findings["XA"].remedy
