"""Permits: nobody older may prepare any more (R3, R5, R8, R9).

A permit is a row that every writer locks shared at its beginning. Deleting it waits for the writers that hold it, and
after that no further one comes into being. What is already prepared keeps the lock on MySQL and lets go of it on
MariaDB (measured on 9.7 and 10.11, READ COMMITTED). Both are served: what is prepared under a permit that is being
deleted is rolled back first. That is right because the caller has committed before whatever is decided; of another
incarnation nobody here knows what is decided, and it is left alone.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Integer

from connectors.owner import Owner, check_counted
from connectors.sql import claims, tables
from connectors.sql.slots import SLOT
from connectors.sql.statements import Connected, StatementError, in_transaction
from connectors.sql.two_phase import undoing
from connectors.sql.two_phase.server import Server, listed
from eos.errors import IdentityError, SetBackError, SinkUnavailableError
from twophase.ids import Scope, TransactionId, sink_key
from twophase.retry import retrying

_EVICTION_S: Final = 30.0


class _StillHeldError(SinkUnavailableError):
    """A writer uses a permit that is being deleted."""


PERMIT: Final = tables.table(
    "eos_permit",
    tables.column("incarnation", tables.INCARNATION),
    tables.column("epoch", BigInteger),
    tables.column("checkpoint_id", BigInteger),
    tables.column("attempt", Integer),
    tables.column("sink", tables.SINK),
    tables.column("pipeline", tables.PIPELINE, key=False),  # a claim of another incarnation must find it
)
TABLES: Final = (tables.CLAIM, PERMIT, SLOT, tables.WITNESS)
"""What two-phase commit keeps in the database."""


_KEY: Final = "incarnation = %s AND epoch = %s AND checkpoint_id = %s AND attempt = %s AND sink = %s"


def lock_permit(server: Connected, scope: Scope, sink: str) -> bool:
    """Take the permit shared, inside the writer's transaction; False if it is gone (R5). Raises StatementError.

    It is gone as well where anything of the same run is committed: whoever asks then was set back with its memory, and
    would write the run a second time (H33).
    """
    unless = f"NOT EXISTS (SELECT 1 FROM eos_witness WHERE {_KEY})"
    statement = f"SELECT 1 FROM eos_permit WHERE {_KEY} AND {unless} {server.for_share}"
    return bool(server.execute(statement, *permit_key(scope, sink), *permit_key(scope, sink)))


def permit_key(scope: Scope, sink: str) -> tuple[str, int, int, int, str]:
    """The primary key of a permit."""
    return scope.incarnation, scope.epoch, scope.checkpoint_id, scope.attempt, sink


def holders(scope: Scope, sink: str) -> str:
    """The name under which the connections of a permit's writers are marked, so that they can be ended."""
    return f"{scope}/{sink}"


def insert_permit(server: Server, pipeline: str, sink: str, scope: Scope, counted: int, *, again: bool = False) -> None:
    """R5: only while the claim row is ours; it stays locked meanwhile. Idempotent. Raises FencedError, SetBackError.

    `again`: of a repair, whose checkpoint the sink may have in part.
    """
    with in_transaction(server):
        claims.hold_claim(server, pipeline, sink, Owner(scope.incarnation, scope.epoch))
        if not again:
            _check_next(server, sink, scope, counted)
        if not lock_permit(server, scope, sink_key(sink)):  # nobody else inserts one: the claim row is held
            server.execute(tables.inserting(PERMIT), *permit_key(scope, sink_key(sink)), pipeline)


def _check_next(server: Server, sink: str, scope: Scope, counted: int) -> None:
    """Raise SetBackError where the sink counts less than is known (H26), or has anything of this checkpoint (H33)."""
    key = scope.incarnation, sink_key(sink)
    shown = "EXISTS (SELECT 1 FROM eos_witness WHERE incarnation = %s AND sink = %s AND checkpoint_id = %s)"
    statement = f"SELECT checkpoint_id, {shown} FROM eos_slot WHERE incarnation = %s AND sink = %s"
    found = server.execute(statement, *key, scope.checkpoint_id, *key)
    at = min((int(number) for number, _ in found), default=None)
    if at is not None and (at >= scope.checkpoint_id or any(int(is_shown) for _, is_shown in found)):
        raise SetBackError.of_driver(sink, scope.checkpoint_id)
    check_counted(sink, at, counted)


def older_permits(server: Server, pipeline: str, sink: str, incarnation: str, epoch: int) -> list[Scope]:
    """Permits of this pipeline and sink which (incarnation, epoch) supersedes."""
    statement = (
        "SELECT incarnation, epoch, checkpoint_id, attempt FROM eos_permit"
        " WHERE pipeline = %s AND sink = %s AND NOT (incarnation = %s AND epoch >= %s)"
    )
    return [Scope(*row) for row in server.execute(statement, pipeline, sink_key(sink), incarnation, epoch)]


def check_nothing_undecided(server: Server, pipeline: str, sink: str, incarnation: str, epoch: int) -> None:
    """Before a take-over: what another incarnation left prepared may be decided, and only its own head knows (R3).

    Raises IdentityError that lists it.
    """
    foreign = {s for s in older_permits(server, pipeline, sink, incarnation, epoch) if s.incarnation != incarnation}
    left = [t for scope in sorted(foreign) for t in _prepared_under(server, sink, scope)]
    if left:
        raise _undecided(sink, left)


def earlier_attempts(server: Server, sink: str, scope: Scope) -> list[Scope]:
    """Permits of `scope` and of the tries before it."""
    statement = (
        "SELECT attempt FROM eos_permit"
        " WHERE incarnation = %s AND epoch = %s AND checkpoint_id = %s AND attempt <= %s AND sink = %s"
    )
    rows = server.execute(statement, *permit_key(scope, sink_key(sink)))
    return [Scope(scope.incarnation, scope.epoch, scope.checkpoint_id, int(attempt)) for (attempt,) in rows]


def revoke_permits(server: Server, sink: str, incarnation: str, scopes: list[Scope]) -> None:
    """Delete these permits. Returns when none of them can be used any more and nothing is prepared under them.

    What `incarnation` prepared is rolled back. What another one prepared is not: it may be decided, in a head that
    this pipeline does not read (IdentityError). Its open branches are ended; nobody has acknowledged them.
    Blocks for half a minute at most, then raises SinkUnavailableError: the call is made again. Raises StatementError.
    """
    left = list(scopes)

    def attempt() -> None:
        while left:
            _evict(server, sink, incarnation, left[0])
            del left[0]

    retrying(_StillHeldError, deadline_s=_EVICTION_S, wait_s=0.02)(attempt)


def _evict(server: Server, sink: str, incarnation: str, scope: Scope) -> None:
    left = _prepared_under(server, sink, scope)
    if left and scope.incarnation != incarnation:
        raise _undecided(sink, left)
    held = undoing.roll_back_once(server, sink, left)
    try:
        server.execute(f"DELETE FROM eos_permit WHERE {_KEY}", *permit_key(scope, sink_key(sink)))
    except StatementError as error:
        if not error.lock_wait:
            raise
        server.end(holders(scope, sink_key(sink)))
        raise _still_held(sink, scope) from error
    if held or _prepared_under(server, sink, scope):  # MariaDB: prepared while the DELETE waited
        raise _still_held(sink, scope)


def _still_held(sink: str, scope: Scope) -> _StillHeldError:
    message = f"sink {sink}: a writer of {scope} still holds its permit after {_EVICTION_S:g} s"
    return _StillHeldError(message, remedy="end its connection: SHOW PROCESSLIST lists it under the pipeline's user")


def _undecided(sink: str, left: list[TransactionId]) -> IdentityError:
    named = ", ".join(str(each) for each in left)
    message = f"sink {sink}: another incarnation of this pipeline left {len(left)} transactions prepared: {named}"
    remedy = (
        "start that copy once from its own checkpoint location, which resolves them; or, if its location is lost, "
        "resolve each with `eos transactions commit --force` or `rollback --force`; only that copy knows the decisions"
    )
    return IdentityError(message, remedy=remedy)


def _prepared_under(server: Server, sink: str, scope: Scope) -> list[TransactionId]:
    return [each for each in listed(server) if each.scope == scope and each.sink == sink_key(sink)]
