"""Connections of dead or hanging writers and drivers: marked when they open, and killed by the next driver.

A writer that is stopped in the middle (a frozen worker, a cut network) keeps its permit locked until the server gives
the connection up, after `wait_timeout`; so does a driver that applies a log. Any user may KILL its own connections, but
must know which: each takes a user-level lock with a name that others can find, and IS_USED_LOCK tells the connection
that holds it. Such a lock ends with its connection, needs no privilege on either server, and has nothing to do with
transactions.
"""

from __future__ import annotations

import hashlib
from typing import Final

from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.errors import ServerError

_MEMBERS: Final = 1024  # of a group share a name modulo this
_ATTEMPTS: Final = 4  # of those that share a name can be told apart

MOST_MARKED: Final = _MEMBERS * _ATTEMPTS
"""Connections of one group that `kill` finds. More than these stay until `wait_timeout` if they hang."""

_ASKED_AT_ONCE: Final = 1024  # a row has at most 4096 columns
_NO_SUCH_THREAD: Final = 1094


def mark(session: Session, group: str, member: int | None = None) -> None:
    """Let this connection be found by `kill`. One round trip as a rule. Raises ServerError.

    `group`: whom it belongs to; `member`: which of them it is, so that as many names need not be tried.
    """
    for attempt in range(_ATTEMPTS):
        name = _name(group, (member or 0) % _MEMBERS, attempt)
        if session.execute("SELECT GET_LOCK(%s, 0)", name)[0][0] == 1:
            return


def kill(session: Session, group: str, member: int | None = None) -> int:
    """KILL the other marked connections of this group, or of one member of it. Return how many. Raises ServerError."""
    members = range(_MEMBERS) if member is None else [member % _MEMBERS]
    names = [_name(group, each, attempt) for each in members for attempt in range(_ATTEMPTS)]
    threads: set[int] = set()
    for start in range(0, len(names), _ASKED_AT_ONCE):
        some = names[start : start + _ASKED_AT_ONCE]
        asked = ", ".join(["IS_USED_LOCK(%s)"] * len(some))
        own, *found = session.execute(f"SELECT CONNECTION_ID(), {asked}", *some)[0]
        threads |= {int(thread) for thread in found if thread not in (None, own)}
    for thread in threads:
        try:
            session.execute(f"KILL {thread}")
        except ServerError as error:
            if error.number != _NO_SUCH_THREAD:
                raise
    return len(threads)


def _name(group: str, member: int, attempt: int) -> str:
    """At most 64 characters, the limit of MySQL."""
    return f"eos-{hashlib.sha256(group.encode()).hexdigest()[:32]}-{member:02x}-{attempt}"
