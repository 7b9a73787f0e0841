"""One slot of a small store: each change of the sink is a compare-and-set of its token.

All rules that a SQL sink keeps by row locks are kept here by the comparison. A driver reads the token, decides by it
alone what to do, and replaces the very text that it has read. If another driver was faster, nothing happens, and the
driver decides anew. So a frozen driver cannot land anything after a claim (R1, H28), a repeated call lands once (R7),
and an older driver learns from the token whose the sink is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from connectors.log.ledger import Share, gap
from connectors.owner import Owner, check_applier, check_counted, check_succession, fenced_error
from connectors.stores.token import Token, decode_token, digest, slot_key
from eos.errors import IdentityError, SinkUnavailableError
from twophase.ids import Scope, TransactionId
from twophase.values import CommitOutcome, Committable

_ATTEMPTS: Final = 20
"""Comparisons that may fail one after another. Each failure means that another driver has changed the slot."""

_log: Final = logging.getLogger("eos.sink")

Put = Callable[[str, str], bool]
"""Replaces the expected token by another one, with or without rows; see `TokenStore.apply`."""


class Slot:
    """The slot of one sink of one pipeline. Thread-safe as far as the store is: it remembers nothing."""

    def __init__(self, sink: str, pipeline: str, read: Callable[[str], str], put: Callable[[str, str, str], bool]):
        """Take the two calls of the store: `read(slot)` and `put(slot, expected, token)`, which adds no rows."""
        self.key = slot_key(pipeline, sink)
        self._sink = sink
        self._read = read
        self._put = put

    def read(self) -> tuple[str, Token | None]:
        """Return the token, as text and decoded. Raises IdentityError, HeadFormatError, SinkUnavailableError."""
        text = self._read(self.key)
        return text, decode_token(text, f"sink {self._sink}, slot {self.key}")

    def claim(self, owner: Owner, *, take_over: bool, begins: int, counted: int) -> None:
        """Make the slot this driver's; see `Ledger.claim`. When it returns, every older driver is fenced."""

        def claimed(found: Token | None) -> Token:
            same = found if found is not None and found.owner.incarnation == owner.incarnation else None
            if same is None:
                check_counted(self._sink, None, counted)
            if found is not None and not take_over:
                check_succession(self._sink, found.owner, owner)
            # Numbers begin anew with an incarnation: its token has nothing of the one before but the serial number.
            return replace(same, owner=owner) if same is not None else Token(owner, begins, serial=_serial(found))

        self._change(claimed)

    def check_next(self, scope: Scope) -> None:
        """Raise FencedError if the slot is not this driver's, IdentityError if it is not at the checkpoint before."""
        _, found = self.read()
        found = self._owned(found, Owner(scope.incarnation, scope.epoch))
        if found.number != scope.checkpoint_id - 1:
            message = f"sink {self._sink} is at checkpoint {found.number}, and everything up to "
            message += f"{scope.checkpoint_id - 1} was committed"
            raise IdentityError(message, remedy="restore the store and the checkpoint location to the same moment")

    def check_owner(self, owner: Owner) -> None:
        """Raise FencedError if the slot is not this driver's."""
        self._owned(self.read()[1], owner)

    def fast_forward(self, owner: Owner, checkpoint_id: int, counted: int) -> None:
        """Count every checkpoint up to this one; see `Ledger.fast_forward`."""

        def raised(found: Token | None) -> Token | None:
            found = self._owned(found, owner)
            check_counted(self._sink, found.number, counted)
            return replace(found, number=checkpoint_id, applied="") if found.number < checkpoint_id else None

        self._change(raised)

    def advance(self, share: Share, missing: Callable[[], Sequence[str]], put: Put) -> list[CommitOutcome]:
        """Move the slot by one checkpoint, with its rows; see `Ledger.apply`.

        Args:
            share: all of the checkpoint.
            missing: returns what a lost row would need; asked before rows are put.
            put: puts the rows and replaces the token.
        """
        for _ in range(_ATTEMPTS):
            text, found = self.read()
            check_applier(self._sink, found.owner if found else None, share.incarnation, share.epoch)
            assert found is not None, "an applier without a claim is fenced"
            if found.number >= share.checkpoint_id:
                return self._already(found, share)
            if lost := missing():
                if self.read()[0] != text:
                    continue  # another driver has applied the checkpoint meanwhile, and removed what it no longer needs
                _log.error("sink %s: %s is missing: restore it, and start again", self._sink, ", ".join(lost))
                return [CommitOutcome.LOST] * len(share.committables)  # all or nothing, so it can still be repaired
            if not share.is_next(found.number):
                raise gap(self._sink, share, found.number)
            moved = replace(found, number=share.checkpoint_id, applied=digest(share.committables))
            if put(text, _next(moved)):
                return [CommitOutcome.COMMITTED] * len(share.committables)
        raise self._contended()

    def give_up(
        self, incarnation: str, transactions: Sequence[TransactionId], delete: Callable[[Sequence[TransactionId]], None]
    ) -> TransactionId | None:
        """Delete all, so that no driver can apply one; see `Ledger.give_up`.

        The new token comes last: an `apply` that is under way has read an older one, and lands before it or never.
        """
        for _ in range(_ATTEMPTS):
            text, found = self.read()
            if applied := [each for each in transactions if is_applied(found, incarnation, each)]:
                return min(applied)
            delete(transactions)
            if found is None:
                if self.read()[1] is None:
                    return None  # nothing is ever applied without a claim
            elif self._put(self.key, text, _next(found)):
                return None
        raise self._contended()

    def _already(self, found: Token, share: Share) -> list[CommitOutcome]:
        """The checkpoint is applied. Of the newest one the token tells with which transactions (H33)."""
        share.check_not_past(self._sink, found.number)
        other = found.number == share.checkpoint_id and not found.shows(share.committables)
        return [CommitOutcome.LOST if other else CommitOutcome.ALREADY_COMMITTED] * len(share.committables)

    def _owned(self, found: Token | None, owner: Owner) -> Token:
        if found is None or found.owner != owner:
            raise fenced_error(self._sink, found.owner if found else None, owner)
        return found

    def _change(self, change: Callable[[Token | None], Token | None]) -> None:
        """Replace the token by what `change` makes of it; None: leave it as it is."""
        for _ in range(_ATTEMPTS):
            text, found = self.read()
            changed = change(found)
            if changed is None or self._put(self.key, text, _next(changed)):
                return
        raise self._contended()

    def _contended(self) -> SinkUnavailableError:
        message = f"sink {self._sink}: another driver has changed slot {self.key} {_ATTEMPTS} times meanwhile"
        return SinkUnavailableError(message, remedy="it is tried again; see that only one driver runs")


def is_applied(found: Token | None, incarnation: str, transaction: TransactionId) -> bool:
    """Return whether the checkpoint of this transaction is applied, whichever of its transactions it was."""
    if found is None or found.owner.incarnation != incarnation or transaction.scope.incarnation != incarnation:
        return False
    return transaction.scope.checkpoint_id <= found.number


def number_of(found: Token | None, incarnation: str) -> int | None:
    """Return the newest checkpoint of this incarnation that the slot shows; None: the slot is not of it."""
    return found.number if found is not None and found.owner.incarnation == incarnation else None


def seen(found: Token | None, incarnation: str, asked: Sequence[Committable]) -> set[TransactionId]:
    """Return which of these transactions are visible."""
    return {each.transaction for each in asked if is_applied(found, incarnation, each.transaction)}


def _serial(found: Token | None) -> int:
    return found.serial if found is not None else 0


def _next(token: Token) -> str:
    return replace(token, serial=token.serial + 1).encode()
