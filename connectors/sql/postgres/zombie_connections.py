"""Connections of dead or hanging writers and drivers: marked when they open, and killed by the next driver.

A writer that is stopped in the middle keeps its permit locked until the server gives the connection up; so does a
driver that applies a log. Any role may end its own connections; `application_name` tells which they are.
"""

from __future__ import annotations

import hashlib

from connectors.sql.postgres.engine import Session


def mark(session: Session, group: str, member: int | None = None) -> None:
    """Let `kill` find this connection. Raises ServerError.

    `group`: whom the connection belongs to; `member`: which one of the group it is.
    """
    session.execute("SELECT set_config('application_name', %s, false)", _name(group, member))


def kill(session: Session, group: str, member: int | None = None) -> int:
    """End the other marked connections of this group, or of one member of it. Return how many. Raises ServerError."""
    name = _name(group, member)
    own = "application_name = %s" if member is not None else "split_part(application_name, '.', 1) = %s"
    found = f"FROM pg_stat_activity WHERE {own} AND pid <> pg_backend_pid()"
    return len(session.execute(f"SELECT pg_terminate_backend(pid) {found}", name))


def _name(group: str, member: int | None) -> str:
    """Less than 64 bytes, the limit of a name."""
    name = f"eos-{hashlib.sha256(group.encode()).hexdigest()[:40]}"
    return name if member is None else f"{name}.{member}"
