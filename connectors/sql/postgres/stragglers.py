"""Ending connections of our own that nobody waits for any more.

A writer that is stopped in the middle keeps its permit locked until the server gives the connection up; so does a
driver that applies a log. Any role may end its own connections; `application_name` tells which they are.
"""

from __future__ import annotations

import hashlib

from connectors.sql.postgres.engine import Session


def mark(session: Session, group: str) -> None:
    """Let this connection be found by `end`. Raises ServerError. `group`: whom it belongs to."""
    session.execute("SELECT set_config('application_name', %s, false)", _name(group))


def end(session: Session, group: str) -> int:
    """End every other marked connection of this group; returns how many. Raises ServerError."""
    found = "FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid()"
    return len(session.execute(f"SELECT pg_terminate_backend(pid) {found}", _name(group)))


def _name(group: str) -> str:
    """Less than 64 bytes, the limit of a name."""
    return f"eos-{hashlib.sha256(group.encode()).hexdigest()[:40]}"
