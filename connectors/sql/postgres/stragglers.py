"""Ending the connections of our own writers that nobody waits for any more.

A writer that is stopped in the middle keeps its permit locked until the server gives the connection up. Any role may
end its own connections; `application_name` tells which they are.
"""

from __future__ import annotations

import hashlib

from connectors.sql.postgres.engine import Session
from twophase.ids import Scope, TransactionId


def mark(session: Session, transaction: TransactionId) -> None:
    """Let this connection be found by `end_stragglers`. Raises ServerError."""
    session.execute("SELECT set_config('application_name', %s, false)", _name(transaction.scope, transaction.sink))


def end_stragglers(session: Session, scope: Scope, sink: str) -> int:
    """End every marked connection of this scope and sink; returns how many. Raises ServerError."""
    found = "FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid()"
    return len(session.execute(f"SELECT pg_terminate_backend(pid) {found}", _name(scope, sink)))


def _name(scope: Scope, sink: str) -> str:
    """Less than 64 bytes, the limit of a name."""
    return f"eos-{hashlib.sha256(f'{scope}/{sink}'.encode()).hexdigest()[:40]}"
