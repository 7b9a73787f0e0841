"""Claim rows: which incarnation and epoch own a sink (R2, R3)."""

from __future__ import annotations

import logging
import time
from typing import Final, Protocol

from connectors.owner import Owner, check_counted, check_succession, fenced_error
from connectors.sql import tables
from connectors.sql.statements import Connected, StatementError, in_transaction
from eos.errors import SinkUnavailableError
from twophase.ids import sink_key

FROZEN_S: Final = 20.0
"""How long a start waits for a lock before it ends the connection that holds the lock."""

_log: Final = logging.getLogger("eos.sink")


class Claiming(Connected, Protocol):
    """A connection that can end marked connections."""

    def end(self, name: str) -> int:
        """End the other connections that are marked with this name; return how many."""


def appliers(pipeline: str, sink: str) -> str:
    """Return the mark of connections that apply a log, one per slot, of every incarnation. `sink`: sink_key(name)."""
    return f"{pipeline}/{sink}/slots"


def control(pipeline: str, sink: str) -> str:
    """Return the mark of a log's connection that claims. `sink`: sink_key(name)."""
    return f"{pipeline}/{sink}/control"


def read_claim(server: Connected, pipeline: str, sink: str, *, lock: str = "") -> Owner | None:
    """The claim row, or None if nobody ever claimed the sink for this pipeline. Raises StatementError.

    `lock`: `for_share` or `for_update` of the connection, inside a transaction.
    """
    statement = f"SELECT incarnation, epoch FROM eos_claim WHERE pipeline = %s AND sink = %s {lock}"
    rows = server.execute(statement, pipeline, sink_key(sink))
    return Owner(str(rows[0][0]), int(rows[0][1])) if rows else None


def raise_claim(
    server: Claiming, pipeline: str, sink: str, owner: Owner, *, take_over: bool, counted: int = -1
) -> None:
    """Make the claim row this one. Raises FencedError, IdentityError, SetBackError, StatementError.

    When it returns, no transaction that applies a log under an older claim is open: each holds the claim row shared
    until it ends (H28). After FROZEN_S their driver may be frozen: `server` then ends all marked connections of the
    sink except its own, of any incarnation and slot. Blocks for twice that time at most.

    Invariant: the claim row is the first lock of each transaction that takes it, so no two of them wait for each other.

    `take_over`: also from another incarnation (`eos reset`). `counted`: what the sink is known to have counted of this
    incarnation, so that it went back in time if there is no row (H26).
    """
    until = time.monotonic() + FROZEN_S
    while True:
        try:
            return _raise_claim(server, pipeline, sink, owner, take_over=take_over, counted=counted)
        except StatementError as error:
            if not (error.lock_wait and server.for_share):  # empty: one lock for all, of which nobody can be relieved
                raise
            late_s = time.monotonic() - until
            if late_s > FROZEN_S:
                raise
            if late_s > 0:  # each time: a driver that is not frozen connects again
                _end_holders(server, pipeline, sink)


def _end_holders(server: Claiming, pipeline: str, sink: str) -> None:
    marks = (appliers(pipeline, sink_key(sink)), control(pipeline, sink_key(sink)))
    if ended := sum(server.end(mark) for mark in marks):
        _log.warning("sink %s: a claim ended %d connections of an earlier driver, which held its locks", sink, ended)


def _raise_claim(server: Connected, pipeline: str, sink: str, owner: Owner, *, take_over: bool, counted: int) -> None:
    try:
        with in_transaction(server):
            found = read_claim(server, pipeline, sink, lock=server.for_update)
            if found is None or found.incarnation != owner.incarnation:
                check_counted(sink, None, counted)
            if found is None:
                server.execute(tables.inserting(tables.CLAIM), pipeline, sink_key(sink), *owner)
                return
            if not take_over:
                check_succession(sink, found, owner)
            statement = "UPDATE eos_claim SET incarnation = %s, epoch = %s WHERE pipeline = %s AND sink = %s"
            server.execute(statement, *owner, pipeline, sink_key(sink))
    except StatementError as error:
        if error.duplicate_key:
            # Two drivers were the first at once: the call is made again, and finds the row.
            message = f"sink {sink}: another driver claimed it at this moment"
            raise SinkUnavailableError(message, remedy="it is tried again") from error
        raise


def hold_claim(server: Connected, pipeline: str, sink: str, owner: Owner) -> None:
    """Lock the claim row for the rest of the transaction. Raises FencedError if it is not this one, StatementError."""
    found = read_claim(server, pipeline, sink, lock=server.for_update)
    if found != owner:
        raise fenced_error(sink, found, owner)
