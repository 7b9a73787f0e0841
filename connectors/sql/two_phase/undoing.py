"""Rolling back what is prepared, until it is gone: what a server answers to a rollback says nothing (H19, H24)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from connectors.sql import tables
from connectors.sql.statements import StatementError
from connectors.sql.two_phase.server import Server, listed
from eos.errors import IdentityError, SinkUnavailableError
from twophase.ids import TransactionId
from twophase.retry import retrying

_PATIENCE_S: Final = 30.0


class _StillPreparedError(SinkUnavailableError):
    """A transaction is prepared although it was rolled back."""


def roll_back(server: Server, sink: str, transactions: Sequence[TransactionId]) -> None:
    """Roll back each of them; returns when they are gone. Raises StatementError, and IdentityError for one that is
    committed. Blocks for half a minute at most, then raises SinkUnavailableError."""
    left = transactions

    def attempt() -> None:
        nonlocal left
        left = roll_back_once(server, sink, left)
        if left:
            message = f"sink {sink}: {left[0]} is still prepared {_PATIENCE_S:g} s after the first rollback"
            raise _StillPreparedError(message, remedy="its connection may still be open: SHOW PROCESSLIST")

    retrying(_StillPreparedError, deadline_s=_PATIENCE_S, wait_s=0.05)(attempt)


def roll_back_once(server: Server, sink: str, transactions: Sequence[TransactionId]) -> list[TransactionId]:
    """Try each of them; returns those that are not gone. Raises StatementError, IdentityError."""
    known = {each for each in transactions if _roll_back(server, each)}
    still = listed(server) if transactions else set()
    return [each for each in transactions if each in still or _is_held(server, sink, each, known=each in known)]


def _roll_back(server: Server, transaction: TransactionId) -> bool:
    """Whether the server knew it."""
    try:
        server.roll_back_prepared(transaction)
    except StatementError as error:
        if not (error.in_doubt or error.rolled_back):
            raise
        return False
    return True


def _is_held(server: Server, sink: str, transaction: TransactionId, *, known: bool) -> bool:
    stands = tables.is_witness_visible(server, transaction)
    if stands is None:
        server.relist(transaction)
        return True
    if stands and not known:  # one that was known is gone: beside the witness it was a mere reminder (H24)
        message = f"sink {sink}: {transaction} is committed, so it cannot be rolled back"
        raise IdentityError(
            message, remedy="it was committed by hand, or head was set back; restore head from a backup"
        )
    return False
