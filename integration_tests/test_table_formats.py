"""The format of the tables `eos_*` on real servers, with the rights of docs/how-to/security.md and no others."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from connectors.log.place import LogPlace
from connectors.sql import head, tables
from connectors.sql.head import SqlHead, check_head
from connectors.sql.kind import kind_of
from connectors.sql.mysql.engine import Session as MySqlSession
from connectors.sql.postgres.engine import Session as PostgresSession
from connectors.sql.table_format import COMMENT, reading
from connectors.sql.two_phase import permits
from connectors.testing.rows import rows
from connectors.testing.sink_driver import SinkDriver
from connectors.testing.target import schema_for
from eos.errors import HeadFormatError
from integration_tests.harness.tenant import Tenant
from integration_tests.test_compliance import DatabaseTarget, MySqlTarget, PostgresTarget

_GOLDEN: Final = Path(__file__).parents[1] / "tests" / "golden"
_RIGHTS: Final = {
    "mysql": ["every sink", "a table that is there", "checkpoint.head"],
    "postgresql": ["every sink", "checkpoint.head"],
}
_TABLES: Final = (*permits.TABLES, *head.TABLES)
_NEXT: Final = "eos_format 2, least_reader 1"


def golden(tenant: Tenant, folder: str) -> list[str]:
    """The statements of a version, to be run by an administrator."""
    text = (_GOLDEN / folder / f"{tenant.kind}.sql").read_text()
    return [each.strip() for each in text.split(";") if each.strip()]


def comments(tenant: Tenant) -> dict[str, str | None]:
    """As the tenant sees them."""
    engine = kind_of(tenant.url).open_engine(tenant.url, 0)
    try:
        with engine.connect() as connection:
            found = connection.exec_driver_sql(reading(kind_of(tenant.url).comment_of, _TABLES))
            return {str(name): comment or None for name, comment in found}
    finally:
        engine.dispose()


def target_of(tenant: Tenant, log: LogPlace | None) -> DatabaseTarget:
    made = (MySqlTarget if tenant.kind == "mysql" else PostgresTarget)(tenant.admin_url, log)
    made.url = tenant.url
    return made


def grant(tenant: Tenant) -> None:
    """The rights of the docs, on tables that an administrator has created."""
    if tenant.kind == "postgresql":
        tenant.execute(*(each for each in tenant.statements("the administrator") if "CREATE ROLE" in each))
    statements = tenant.statements(*_RIGHTS[tenant.kind], *tenant.two_phase)
    tenant.execute(*(each for each in statements if not each.startswith("CREATE TABLE")))


@pytest.mark.parametrize("commit", ["two-phase", "write-ahead-log"])
@pytest.mark.parametrize(("folder", "comment"), [("tables-before", None), ("tables", COMMENT), ("tables-next", _NEXT)])
def test_tables_of_a_neighbouring_version_are_worked_on_and_left_as_they_are(
    tenant: Tenant, folder: str, comment: str | None, commit: str, tmp_path: Path
) -> None:
    target = target_of(tenant, LogPlace(tmp_path / "log", slots=2) if commit == "write-ahead-log" else None)
    tenant.execute(*golden(tenant, folder))
    grant(tenant)
    assert comments(tenant) == {each.name: comment for each in _TABLES}
    findings = target.sink("target").check(schema_for(target), 2)
    assert [each for each in findings if each.fatal and not each.ok] == []
    driver = SinkDriver(target)
    driver.start()
    driver.checkpoint(0, rows(0, 10), rows(10, 20))
    driver.start()
    driver.checkpoint(1, rows(20, 30))
    driver.close()
    assert target.rows() == Counter(rows(0, 30))
    with closing(SqlHead(tenant.url, "orders")) as store:
        assert store.swap(None, b"one")
        assert store.swap(store.read(), b"two")
        store.put_record("r", b"content")
        assert store.get_record("r") == b"content"
    assert all(each.ok for each in check_head("head", tenant.url) if each.check == "head: own tables")
    assert comments(tenant) == {each.name: comment for each in _TABLES}


@pytest.mark.parametrize("commit", ["two-phase", "write-ahead-log"])
def test_tables_that_this_version_would_misread_are_refused_by_start_and_doctor(
    tenant: Tenant, commit: str, tmp_path: Path
) -> None:
    target = target_of(tenant, LogPlace(tmp_path / "log", slots=2) if commit == "write-ahead-log" else None)
    tenant.execute(*(each.replace("least_reader 1", "least_reader 2") for each in golden(tenant, "tables-next")))
    grant(tenant)
    words = rf"eos_claim.* at .*{tenant.database}.* has format 2, which is read from format 2 on; this version reads 1"
    with pytest.raises(HeadFormatError, match=words) as caught:
        SinkDriver(target).start()
    assert not caught.value.retriable
    assert "or a newer one, for every pipeline" in caught.value.remedy
    (finding,) = (each for each in target.sink("target").check(None) if "own tables" in each.check)
    assert (finding.ok, finding.fatal) == (False, True)
    assert "this version reads 1" in finding.detail
    words = words.replace("eos_claim", "eos_head")
    with closing(SqlHead(tenant.url, "orders")) as store, pytest.raises(HeadFormatError, match=words):
        store.read()
    (finding,) = (each for each in check_head("head", tenant.url) if each.check == "head: own tables")
    assert (finding.ok, finding.fatal) == (False, True)
    for table in _TABLES:
        assert target.execute(f"SELECT COUNT(*) FROM {table.name}") == [(0,)]


def test_drivers_that_create_the_tables_at_once_all_work_and_leave_the_format(tenant: Tenant) -> None:
    target_of(tenant, None)
    if tenant.kind == "mysql":
        grant(tenant)
    else:
        tenant.grant("create: if-missing, evolve: add-columns")
    session, at_once, rounds = MySqlSession if tenant.kind == "mysql" else PostgresSession, 4, 5

    def create(_: int) -> None:
        with session(tenant.url) as mine:
            tables.ensure(mine, permits.TABLES, "here")
        with closing(SqlHead(tenant.url, "orders")) as store:
            store.swap(None, b"one")
            assert store.read() is not None

    for _ in range(rounds):
        with ThreadPoolExecutor(at_once) as pool:
            assert list(pool.map(create, range(at_once))) == [None] * at_once
        assert comments(tenant) == {each.name: COMMENT for each in _TABLES}
        tenant.execute("DROP TABLE " + ", ".join(each.name for each in _TABLES))
