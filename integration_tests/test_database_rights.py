"""The rights of docs/security.md are enough for each sink and variant, and for head; and each of them is needed."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy

from connectors.log.place import LogPlace
from connectors.sql.head import SqlHead
from connectors.testing.life import Life
from connectors.testing.rows import rows
from connectors.testing.target import schema_for
from integration_tests.harness import typed
from integration_tests.services import Services
from integration_tests.services.postgres_native import Postgres
from integration_tests.test_compliance import DatabaseTarget, MySqlTarget, PostgresTarget
from twophase.errors import ConnectorError, HeadAccessError

_PAGES = {"mysql": "Rights in MySQL and MariaDB", "postgresql": "Rights in PostgreSQL"}
_VARIANTS = {"two-phase": [], "write-ahead-log": [], "upsert": ["upsert"]}
_KINDS = [pytest.param("mysql"), pytest.param("postgresql", marks=pytest.mark.any_server)]


class Tenant:
    """A user with rights of the docs in a database of this test's own; the page's names stand for it."""

    def __init__(self, kind: str, database: str, admin_url: str, product: str) -> None:
        self.kind = kind
        self.database = sqlalchemy.make_url(database).database or ""
        self.name = f"u{secrets.token_hex(4)}"
        self._admin = sqlalchemy.make_url(admin_url).set(database=self.database)
        url = sqlalchemy.make_url(database).set(username=self.name, password="sesame-7-street")
        self.url = url.render_as_string(hide_password=False)
        self.two_phase = ["two-phase on MySQL"] if product == "MySQL" else []
        self.first = ["the administrator", "every sink"] if kind == "postgresql" else ["every sink"]

    def statements(self, *titles: str) -> list[str]:
        """Of the docs, with this test's names in the place of theirs."""
        text = "".join(typed.block("security.md", _PAGES[self.kind], title, "sql") for title in titles)
        text = re.sub(r"^--.*\n", "", text, flags=re.MULTILINE)
        named = (("shop", self.database), ("writer", self.name), ("orders", "compliance"))
        for name, own in named:
            text = re.sub(rf"\b{name}\b", own, text)
        return [each.strip() for each in text.split(";") if each.strip()]

    def execute(self, *statements: str) -> None:
        """As an administrator."""
        engine = sqlalchemy.create_engine(self._admin, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(sqlalchemy.text(statement))

    def target(self, commit: str, folder: Path) -> DatabaseTarget:
        """A table, written to by this user."""
        kind = MySqlTarget if self.kind == "mysql" else PostgresTarget
        log = None if commit == "two-phase" else LogPlace(folder / "log", slots=2)
        admin = self._admin.render_as_string(hide_password=False)
        made = kind(admin, log, keyed=commit == "upsert")
        made.url = self.url
        return made


@pytest.fixture(params=_KINDS)
def tenant(request: pytest.FixtureRequest, services: Services) -> Iterator[Tenant]:
    if request.param == "mysql":
        database = request.getfixturevalue("database")
        made = Tenant("mysql", database, services.admin_database_url, services.database.name)
        yield made
        made.execute(f"DROP USER IF EXISTS {made.name}")
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        database = request.getfixturevalue("postgres_database")
        made = Tenant("postgresql", database, postgres.admin_url, "PostgreSQL")
        made.execute(f"REVOKE ALL ON DATABASE {made.database} FROM PUBLIC", "REVOKE ALL ON SCHEMA public FROM PUBLIC")
        yield made
        made.execute(f"DROP OWNED BY {made.name}", f"DROP ROLE {made.name}")


def live(target: DatabaseTarget) -> Counter[tuple[int, str | None]]:
    """All that a driver and its tasks do: start, write, leave something, start again, repair, write directly, end."""
    findings = target.sink("target").check(schema_for(target), 2)
    assert [each for each in findings if each.fatal and not each.ok] == []
    life = Life(target)
    life.start()
    try:
        life.checkpoint(0, rows(0, 10), rows(10, 20))
        life.prepare(life.permit(1), *rows(20, 30))
        life.start()
        life.checkpoint(1, rows(20, 30))
        lost = life.prepare(life.permit(2), *rows(40, 45))
        life.decided[2] = [lost]
        life.lose(lost)
        life.decided[2] = [life.write_again(2, lost, *rows(40, 45))]
        life.commit(2)
        scope = life.permit(3)
        if not target.keyed:
            life.write_directly(scope, *rows(30, 35))
        life.committer.revoke(scope)
    finally:
        life.close()
    return target.rows()


@pytest.mark.parametrize("commit", _VARIANTS)
def test_the_rights_of_the_docs_are_enough(tenant: Tenant, commit: str, tmp_path: Path) -> None:
    target = tenant.target(commit, tmp_path)
    more = tenant.two_phase if commit == "two-phase" else _VARIANTS[commit]
    tenant.execute(*tenant.statements(*tenant.first, *more))
    found = live(target)
    expected = Counter([*rows(0, 30), *([] if target.keyed else rows(30, 35)), *rows(40, 45)])
    assert found == expected


def test_the_rights_of_the_docs_are_enough_for_head(tenant: Tenant) -> None:
    if tenant.kind == "postgresql":
        tenant.execute(f"CREATE ROLE {tenant.name} LOGIN PASSWORD 'sesame-7-street'")
    else:
        tenant.execute(f"CREATE USER {tenant.name} IDENTIFIED BY 'sesame-7-street'")
    with pytest.raises(HeadAccessError, match=r"denied") as failure:
        SqlHead(tenant.url, "orders").read()
    assert "docs/security.md" in failure.value.remedy or tenant.kind == "postgresql"
    tenant.execute(*tenant.statements("checkpoint.head"))
    head = SqlHead(tenant.url, "orders")
    assert head.read() is None
    assert head.swap(0, b"first")
    assert head.swap(1, b"second")
    head.put_record("a", b"content")
    assert head.shelf("requests").put("stop", b"now")
    assert head.get_record("a") == b"content"
    head.delete_record("a")
    head.shelf("requests").delete("stop")
    assert head.list_records() == []
    head.close()


@pytest.mark.parametrize("commit", ["two-phase", "upsert"])
def test_no_right_of_the_docs_is_superfluous(tenant: Tenant, commit: str, tmp_path: Path) -> None:
    """Without any one of them something does not work, and says so with its reason; nothing is written."""
    target = tenant.target(commit, tmp_path)
    more = tenant.two_phase if commit == "two-phase" else _VARIANTS[commit]
    statements = tenant.statements(*tenant.first, *more)
    tenant.execute(*statements)
    grants = [each for each in statements if each.startswith("GRANT") and not re.search(r"\beos_[a-z]+\b", each)]
    assert grants
    for grant in grants:
        tenant.execute(re.sub(r"^GRANT (.*) TO (\w+)$", r"REVOKE \1 FROM \2", grant, flags=re.DOTALL))
        with pytest.raises((ConnectorError, AssertionError)):
            live(target)
        assert target.rows() == Counter(), grant
        tenant.execute(grant)
    assert live(target)
