"""The statements of two-phase commit, and what the server lists. An id of ours is `eos:` and the transaction's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from connectors.sql.postgres.engine import Session
from connectors.sql.two_phase.server import Listed
from twophase.ids import TransactionId

_MARK: Final = "eos:"


def prepare(session: Session, transaction: TransactionId) -> None:
    """Prepare what is open on this session. When it returns, that survives the connection and the server."""
    session.execute(f"PREPARE TRANSACTION {_literal(transaction)}")


def commit(session: Session, transaction: TransactionId) -> None:
    """Commit what was prepared on any connection to this database. Raises ServerError, 42704 if it is unknown."""
    session.execute(f"COMMIT PREPARED {_literal(transaction)}")


def rollback(session: Session, transaction: TransactionId) -> None:
    """Roll it back. Raises ServerError, 42704 if it is unknown."""
    session.execute(f"ROLLBACK PREPARED {_literal(transaction)}")


def listed(session: Session) -> Sequence[Listed]:
    """What is prepared in this database; of another one nothing could be ended from here."""
    rows = session.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
    return [_listed(str(gid)) for (gid,) in rows]


def _listed(gid: str) -> Listed:
    transaction = TransactionId.parse(gid.removeprefix(_MARK)) if gid.startswith(_MARK) else None
    return Listed(transaction, str(transaction) if transaction else f"prepared transaction {gid!r}")


def _literal(transaction: TransactionId) -> str:
    """Letters, digits, `-`, `/` and `:` alone, so that nothing needs escaping; 88 of at most 199 bytes."""
    return f"'{_MARK}{transaction}'"
