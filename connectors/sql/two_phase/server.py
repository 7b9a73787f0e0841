"""What is asked of a connection to a database that can prepare transactions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from connectors.sql.statements import Connected, StatementError
from twophase.ids import TransactionId


@dataclass(frozen=True, slots=True)
class Listed:
    """One prepared transaction, as the server lists it."""

    transaction: TransactionId | None  # None: a foreign one
    description: str  # as an administrator would name it


class Server(Connected, Protocol):
    """The driver's connection, in autocommit."""

    def prepared(self) -> Sequence[Listed]:
        """All prepared transactions that the server tells of."""

    def commit_prepared(self, transactions: Sequence[TransactionId]) -> Sequence[StatementError | None]:
        """Commit these in their order, from whichever connections they were prepared.

        Return the answers to the first transactions, at least to one; None: committed. The last answer may be an error.
        Behind it nothing was sent, or nothing is known: another call commits these transactions.
        """

    def roll_back_prepared(self, transaction: TransactionId) -> None:
        """Roll one back. That it answers says nothing (H19): the listing and the witness do."""

    def missing_commits(self, committed: Collection[TransactionId]) -> Collection[TransactionId]:
        """Those of one checkpoint that the server said it has committed, and does not show (H24).

        None, without asking it, where its word holds.
        """

    def unlisted(self, incarnation: str, sink: str, checkpoint_id: int | None) -> Collection[TransactionId]:
        """What the server holds of sink_key(name), or of one checkpoint of it, and does not list (H24).

        And writers that are about to prepare: nothing else tells the two from one another.
        """

    def relist(self, transaction: TransactionId) -> None:
        """Have it listed again, if the server holds it and has forgotten its name (H24). Else nothing is changed."""

    def end(self, name: str) -> int:
        """End the other connections that are marked with this name; returns how many."""

    def answers(self) -> bool:
        """Whether the connection still stands."""

    def close(self) -> None:
        """Disconnect; what is prepared stays prepared. Never raises."""


def listed(server: Server) -> set[TransactionId]:
    """What is prepared there of this framework, of whichever pipeline."""
    return {each.transaction for each in server.prepared() if each.transaction is not None}
