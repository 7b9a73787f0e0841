"""Ending the connections of our own writers that nobody waits for any more.

A writer that is stopped in the middle (a frozen worker, a cut network) keeps its permit locked until the server gives
the connection up, after `wait_timeout`. Any user may KILL its own connections, but must know which: each writer takes
a user-level lock named for its scope, and IS_USED_LOCK tells the connection that holds it. Such a lock ends with its
connection, needs no privilege on either server, and has nothing to do with transactions.
"""

from __future__ import annotations

import hashlib
from typing import Final

from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.errors import ServerError
from twophase.ids import Scope, TransactionId

_TASKS: Final = 128  # tasks share a name modulo this
_ATTEMPTS: Final = 4  # attempts of one task, or tasks that share a name, that can be told apart
_NO_SUCH_THREAD: Final = 1094


def mark(session: Session, transaction: TransactionId) -> None:
    """Let this connection be found by `end_stragglers`. One round trip as a rule. Raises ServerError."""
    for attempt in range(_ATTEMPTS):
        name = _name(transaction.scope, transaction.sink, transaction.task % _TASKS, attempt)
        if session.execute("SELECT GET_LOCK(%s, 0)", name)[0][0] == 1:
            return


def end_stragglers(session: Session, scope: Scope, sink: str) -> int:
    """KILL every marked connection of this scope and sink; returns how many. Raises ServerError."""
    names = [_name(scope, sink, task, attempt) for task in range(_TASKS) for attempt in range(_ATTEMPTS)]
    row = session.execute(f"SELECT {', '.join(['IS_USED_LOCK(%s)'] * len(names))}", *names)[0]
    threads = {int(thread) for thread in row if thread is not None}
    for thread in threads:
        try:
            session.execute(f"KILL {thread}")
        except ServerError as error:
            if error.number != _NO_SUCH_THREAD:
                raise
    return len(threads)


def _name(scope: Scope, sink: str, task: int, attempt: int) -> str:
    """At most 64 characters, the limit of MySQL."""
    digest = hashlib.sha256(f"{scope}/{sink}".encode()).hexdigest()[:32]
    return f"eos-{digest}-{task:02x}-{attempt}"
