"""Claim rows: which incarnation and epoch own a sink (R2, R3)."""

from __future__ import annotations

from connectors.owner import Owner, check_succession, fenced
from connectors.sql.statements import Connected, StatementError, in_transaction
from twophase.errors import SetBackError, SinkUnavailableError
from twophase.ids import sink_key


def read_claim(server: Connected, pipeline: str, sink: str, *, lock: str = "") -> Owner | None:
    """The claim row, or None if nobody ever claimed the sink for this pipeline. Raises StatementError.

    `lock`: `for_share` or `for_update` of the connection, inside a transaction.
    """
    statement = f"SELECT incarnation, epoch FROM eos_claim WHERE pipeline = %s AND sink = %s {lock}"
    rows = server.execute(statement, pipeline, sink_key(sink))
    return Owner(str(rows[0][0]), int(rows[0][1])) if rows else None


def raise_claim(
    server: Connected, pipeline: str, sink: str, owner: Owner, *, take_over: bool, counted: int = -1
) -> None:
    """Make the claim row this one. Raises FencedError, IdentityError, SetBackError, StatementError.

    `take_over`: whoever has it now (`eos reset`). `counted`: what the sink is known to have counted of this
    incarnation, so that it went back in time if there is no row (H26).
    """
    try:
        with in_transaction(server):
            found = read_claim(server, pipeline, sink, lock=server.for_update)
            if counted >= 0 and (found is None or found.incarnation != owner.incarnation):
                raise SetBackError.of(sink, None, counted)
            if found is None:
                server.execute("INSERT INTO eos_claim VALUES (%s, %s, %s, %s)", pipeline, sink_key(sink), *owner)
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
        raise fenced(sink, found, owner)
