"""Branches that MariaDB holds, with their locks, and has in no list (H24).

When the connection that prepared a branch is closed, the server gives the branch to whoever asks for it a moment before
InnoDB does (`trans_xa_detach` in sql/xa.cc, then `trx_disconnect_prepared` in trx0trx.cc). XA COMMIT and XA ROLLBACK
that come in between answer OK, strike the name from the list, and do nothing: seen once in some ten thousand commits on
a machine under load. MySQL waits there. After a restart the server lists the branch again.
"""

from __future__ import annotations

from typing import Final

from connectors.sql import tables
from connectors.sql.mysql import xa
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.errors import DUPLICATE_KEY, DUPLICATE_XID, ServerError
from twophase.ids import TransactionId

_LOCK_WAIT_S: Final = 1


def found(session: Session, incarnation: str, sink: str, checkpoint_id: int | None) -> set[TransactionId]:
    """See Server.forgotten. Their witnesses are read uncommitted, first of all: what is committed since then is shown
    by the last read, what is prepared since then is listed. Raises ServerError."""
    session.execute("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")  # of the next statement
    written = tables.witnesses(session, incarnation, sink, checkpoint_id)
    listed = {each.transaction for each in xa.recover(session)}
    return written - listed - tables.witnesses(session, incarnation, sink, checkpoint_id)


def remind(session: Session, url: str, transaction: TransactionId) -> None:
    """Have the server list the branch again, without a restart. Nothing is changed if it holds none, or cannot be asked
    now. Raises ServerError.

    A second branch of the same name is prepared. It is one that writes, or else the server would take the name for one
    to be rolled back; and nothing of what it writes reaches InnoDB, so that the name leads to the first one alone.
    `session`: another connection, on which locks are waited for no longer than here.
    """
    with Session(url, lock_wait_s=_LOCK_WAIT_S) as second:
        second.execute("SET SESSION max_error_count = 64")  # the server may be set to keep no warning
        try:
            xa.start(second, transaction)
            stands = tables.witness_stands(session, transaction)  # now that nobody else can end it by its name
            second.execute("INSERT IGNORE INTO eos_claim SELECT * FROM eos_claim LIMIT 1")
        except ServerError as error:
            if error.number == DUPLICATE_XID or error.lock_wait:
                return  # it is listed, or somebody has the claim: whoever needs it asks again
            raise
        if stands is None and any(number == DUPLICATE_KEY for number, _ in second.warnings()):
            xa.prepare(second, transaction)
        else:
            xa.end_and_rollback(second, transaction)
