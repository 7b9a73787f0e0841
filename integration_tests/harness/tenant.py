"""A user of a database with the rights that docs/how-to/security.md grants, statement by statement."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

import sqlalchemy

from integration_tests.harness import typed

PASSWORD = "sesame-7-street"
_PAGES = {"mysql": "Rights in MySQL and MariaDB", "postgresql": "Rights in PostgreSQL"}


@dataclass(frozen=True, slots=True)
class Right:
    """One privilege on one thing."""

    privilege: str
    place: str
    user: str

    @property
    def revoked(self) -> str:
        """Statement."""
        return f"REVOKE {self.privilege} ON {self.place} FROM {self.user}"

    @property
    def on_protocol(self) -> bool:
        """Whether it is on a table of the protocol's own."""
        return re.search(r"\beos_[a-z]+$", self.place) is not None


def rights(grants: list[str]) -> list[Right]:
    """Each one of these statements."""
    parts = [re.split(r" (?:ON|TO) ", each.removeprefix("GRANT ")) for each in grants]
    return [Right(each, at, user) for what, on, user in parts for at in on.split(", ") for each in what.split(", ")]


class Tenant:
    """In a database of one test's own; the page's names stand for it. `table`: what `orders` is here."""

    def __init__(self, kind: str, database: str, admin_url: str, product: str, table: str) -> None:
        self.kind = kind
        self.table = table
        self.name = f"u{secrets.token_hex(4)}"
        self._database = sqlalchemy.make_url(database)
        self._admin = sqlalchemy.make_url(admin_url).set(database=self.database)
        self.two_phase = ["two-phase on MySQL"] if product == "MySQL" else []

    @property
    def database(self) -> str:
        """Its name."""
        return self._database.database or ""

    @property
    def url(self) -> str:
        """Of this user."""
        own = self._database.set(username=self.name, password=PASSWORD)
        return own.render_as_string(hide_password=False)

    @property
    def admin_url(self) -> str:
        """Of the same database, with all rights."""
        return self._admin.render_as_string(hide_password=False)

    def statements(self, *titles: str) -> list[str]:
        """Of the docs, with this test's names in the place of theirs."""
        text = "".join(typed.block("how-to/security.md", _PAGES[self.kind], title, "sql") for title in titles)
        text = re.sub(r"^--.*\n", "", text, flags=re.MULTILINE)
        for name, own in (("shop", self.database), ("writer", self.name), ("orders", self.table)):
            text = re.sub(rf"\b{name}\b", own, text)
        return [each.strip() for each in text.split(";") if each.strip()]

    def execute(self, *statements: str) -> None:
        """As an administrator."""
        engine = sqlalchemy.create_engine(self._admin, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(sqlalchemy.text(statement))

    def grant(self, *titles: str) -> list[str]:
        """Run these blocks of the docs; returns the statements that grant."""
        statements = self.statements(*titles)
        self.execute(*statements)
        return [each for each in statements if each.startswith("GRANT")]

    def empty(self, *tables: str) -> None:
        """As before a first start: of tables that this user may make none is there, of the administrator's no row."""
        if self.kind == "mysql":
            self.execute(f"DROP TABLE IF EXISTS {', '.join(tables)}")
        else:
            self.execute(f"TRUNCATE {', '.join(tables)}")
