"""Whether REPLACE leaves a table as ON DUPLICATE KEY UPDATE does, in one step where that takes two.

REPLACE deletes a row and inserts another one, or updates it in place where nobody could tell. Others could: a column
that is not written, triggers, and tables whose foreign keys refer to this one. Such tables may be hidden from us, so
that nothing but `foreign_key_checks = 0` keeps their rows; then foreign keys of the table's own would go unchecked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.target import Target

_NEEDED: Final = frozenset({"DELETE", "INSERT", "TRIGGER"})  # REPLACE takes the first two; the third shows triggers


def is_same(session: Session, target: Target, columns: Sequence[str]) -> bool:
    """For rows of these columns, inside the transaction that has locked the table's definition. False where we are not
    allowed to see whether it is. Raises ServerError."""
    written = {name.lower() for name in columns}
    return (
        all(column.generated or column.name.lower() in written for column in target.columns)
        and _privileges(session, target) >= _NEEDED
        and not _has(session, target, "TRIGGERS", "EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s")
        and not _has(
            session,
            target,
            "TABLE_CONSTRAINTS",
            "TABLE_SCHEMA = %s AND TABLE_NAME = %s AND CONSTRAINT_TYPE = 'FOREIGN KEY'",
        )
    )


@contextmanager
def unchecked(session: Session) -> Iterator[None]:
    """No foreign key is checked, and none acts, while rows take the places of others. Raises ServerError."""
    session.execute("SET SESSION foreign_key_checks = 0")
    try:
        yield
    finally:
        session.execute("SET SESSION foreign_key_checks = 1")


def _privileges(session: Session, target: Target) -> frozenset[str]:
    """Those that are granted to the user itself: of roles nothing is told, and of what is revoked in parts."""
    if session.execute("SHOW VARIABLES WHERE Variable_name = 'partial_revokes' AND Value = 'ON'"):
        return frozenset()
    user, _, host = str(session.execute("SELECT CURRENT_USER()")[0][0]).rpartition("@")
    grantee = f"'{user}'@'{host}'"
    rows = session.execute(
        "SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = %s"
        " UNION SELECT PRIVILEGE_TYPE FROM information_schema.SCHEMA_PRIVILEGES"
        " WHERE GRANTEE = %s AND %s LIKE TABLE_SCHEMA"
        " UNION SELECT PRIVILEGE_TYPE FROM information_schema.TABLE_PRIVILEGES"
        " WHERE GRANTEE = %s AND TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        *(grantee, grantee, target.schema, grantee, target.schema, target.table),
    )
    return frozenset(str(name).upper() for (name,) in rows)


def _has(session: Session, target: Target, catalog: str, where: str) -> bool:
    statement = f"SELECT 1 FROM information_schema.{catalog} WHERE {where} LIMIT 1"
    return bool(session.execute(statement, target.schema, target.table))
