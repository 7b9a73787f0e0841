"""The XA statements, sent by ourselves: SQLAlchemy's methods roll back what is prepared and lose half of an id.

An id of ours has `gtrid` = the scope, `bqual` = the branch, and a format number that no other program is known to use.
Both parts are written as hex literals, so that nothing needs escaping.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.errors import PRIVILEGE_MISSING, XA_FAILED, ServerError
from twophase.ids import TransactionId

FORMAT_ID: Final = 0x454F53  # "EOS"

_LITERAL: Final = re.compile(r"[Xx]'([0-9A-Fa-f]*)'|'([^']*)'")


@dataclass(frozen=True, slots=True)
class Branch:
    """One line of XA RECOVER."""

    format_id: int
    gtrid: bytes
    bqual: bytes

    @property
    def transaction(self) -> TransactionId | None:
        """Ours, or None for a foreign one."""
        if self.format_id != FORMAT_ID or not (self.gtrid.isascii() and self.bqual.isascii()):
            return None
        return TransactionId.parse(f"{self.gtrid.decode('ascii')}/{self.bqual.decode('ascii')}")

    @property
    def literal(self) -> str:
        """As an administrator would write it in XA ROLLBACK."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


def literal(transaction: TransactionId) -> str:
    """The id as a statement takes it."""
    return Branch(FORMAT_ID, str(transaction.scope).encode("ascii"), transaction.branch.encode("ascii")).literal


def start(session: Session, transaction: TransactionId) -> None:
    """Begin the branch on this connection. Raises ServerError, XAER_DUPID (1440) if it exists already."""
    session.execute(f"XA START {literal(transaction)}")


def prepare(session: Session, transaction: TransactionId) -> None:
    """End and prepare. When it returns the branch is durable and survives the connection and the server."""
    session.execute(f"XA END {literal(transaction)}")
    session.execute(f"XA PREPARE {literal(transaction)}")


def releases_xid(session: Session) -> bool:
    """Whether a branch leaves this connection when it is prepared, so that another transaction may begin here.

    MySQL does that by `xa_detach_on_prepare`, which a start requires. MariaDB never does: 10.11 refuses a further
    XA START, and after COM_RESET_CONNECTION it takes one, but XA COMMIT of the branch then answers OK on other
    connections and does nothing (H24).
    """
    if session.dialect.is_mariadb:
        return False
    try:
        return session.execute("SELECT @@SESSION.xa_detach_on_prepare") == [(1,)]
    except ServerError:  # refused, as long as the branch is here
        return False


def commit(session: Session, transactions: Sequence[TransactionId]) -> list[ServerError | None]:
    """Commit prepared branches; `session` must be in autocommit. Return the answers up to the first error, which is
    XAER_NOTA (1397) for an unknown branch."""
    return session.execute_each([f"XA COMMIT {literal(each)}" for each in transactions])


def rollback(session: Session, transaction: TransactionId) -> None:
    """Roll a prepared branch back. Raises ServerError, XAER_NOTA (1397) if it is unknown or attached elsewhere."""
    session.execute(f"XA ROLLBACK {literal(transaction)}")


def end_and_rollback(session: Session, transaction: TransactionId) -> None:
    """Undo the open branch of this very connection."""
    session.execute(f"XA END {literal(transaction)}")
    session.execute(f"XA ROLLBACK {literal(transaction)}")


def recover(session: Session) -> list[Branch]:
    """All prepared branches of the server. Raises ServerError, also if the user may not ask (MySQL)."""
    try:
        rows = session.execute(session.dialect.recover)
    except ServerError as error:
        if error.number != XA_FAILED or session.dialect.is_mariadb:
            raise
        # MySQL's answer to a user without the privilege reads like damaged data.
        raise ServerError(PRIVILEGE_MISSING, "XA RECOVER is refused: the user lacks XA_RECOVER_ADMIN") from error
    return [_branch(row) for row in rows]


def _branch(row: tuple[Any, ...]) -> Branch:
    """MySQL shows `0x` and both parts in one; MariaDB shows two literals, each in hex if it is not plain text."""
    format_id, gtrid_length, _, data = row
    text = data.decode("ascii") if isinstance(data, bytes) else str(data)
    if text.startswith("0x"):
        both = bytes.fromhex(text[2:])
        return Branch(int(format_id), both[: int(gtrid_length)], both[int(gtrid_length) :])
    parts = [bytes.fromhex(m[1]) if m[1] is not None else m[2].encode() for m in _LITERAL.finditer(text)]
    return Branch(int(format_id), parts[0], parts[1] if len(parts) > 1 else b"")
