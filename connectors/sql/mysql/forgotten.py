"""Branches that MariaDB holds, with their locks, and has in no list (H24).

When the connection that prepared a branch is closed, the server gives the branch to whoever asks for it a moment before
InnoDB does (`trans_xa_detach` in sql/xa.cc, then `trx_disconnect_prepared` in trx0trx.cc). XA COMMIT and XA ROLLBACK
that come in between answer OK, strike the name from the list, and do nothing: seen once in some ten thousand commits on
a machine under load. MySQL waits there. After a restart the server lists the branch again.
"""

from __future__ import annotations

from typing import Final

from connectors.sql.mysql import xa
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.errors import DUPLICATE_KEY, DUPLICATE_XID, ServerError
from twophase.ids import TransactionId

_LOCK_WAIT_S: Final = 1


def remind(url: str, transaction: TransactionId) -> None:
    """Have the server list the branch again, without a restart. Harmless if it holds none. Raises ServerError.

    A second branch of the same name is prepared. It is one that writes, or else the server would take the name for one
    to be rolled back; and nothing of what it writes reaches InnoDB, so that the name leads to the first one alone.
    """
    with Session(url, lock_wait_s=_LOCK_WAIT_S) as session:
        try:
            xa.start(session, transaction)
        except ServerError as error:
            if error.number == DUPLICATE_XID:
                return  # it is listed
            raise
        session.execute("INSERT IGNORE INTO eos_claim SELECT * FROM eos_claim LIMIT 1")
        if any(number == DUPLICATE_KEY for number, _ in session.warnings()):
            xa.prepare(session, transaction)
        else:
            xa.end_and_rollback(session, transaction)
