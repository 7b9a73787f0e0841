"""`eos doctor` and the protocol's own tables on a real server."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pyarrow as pa
import pytest
from sqlalchemy.engine import make_url

from connectors.sql import tables
from connectors.sql.engine import Session
from connectors.sql.sink import MySqlSink
from integration_tests.mysql_support import IDS, bench
from integration_tests.mysql_support import clean_up as clean_up
from integration_tests.services import Services
from twophase.errors import TargetError


def test_a_fitting_server_and_table_pass(database: str) -> None:
    bench(database, "id BIGINT", IDS)
    findings = MySqlSink("warehouse", database, "rows_in").check(IDS)
    wrong = [each for each in findings if not each.ok and each.fatal]
    assert wrong == []
    checks = {each.check.removeprefix("warehouse: ") for each in findings}
    assert {"reachable", "version", "innodb_flush_log_at_trx_commit", "XA RECOVER", "target", "columns"} <= checks
    assert len(checks) >= 12


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
        for statement in tables.ddl().split(";"):
            if statement.strip():
                session.execute(statement)
        tables.ensure(session)
        for table in ("eos_claim", "eos_permit", "eos_witness"):
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
        tables.ensure(session)
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
