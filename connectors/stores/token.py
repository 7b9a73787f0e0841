"""The token of a slot: which driver owns the sink, and how far the sink is (R2, H26). Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from connectors.owner import Owner
from eos.errors import IdentityError
from twophase.codec import check_readable, own_fields
from twophase.ids import TransactionId, sink_key
from twophase.values import Committable, origin

FORMAT: Final = 1

_FIELDS: Final = frozenset({"incarnation", "epoch", "number", "applied", "serial"})


@dataclass(frozen=True, slots=True)
class Token:
    """One state of a slot. The store sees it as opaque text.

    The first field that grows orders two tokens: `serial`. It is in the text, so no two tokens of a slot are equal. A
    store that compares the whole text therefore fences every driver that has read an older token (R1, H28).
    """

    owner: Owner
    number: int
    """Every checkpoint of the owner's incarnation up to this one is visible. -1: none.

    Invariant: it never decreases within an incarnation.
    """
    applied: str = ""
    """Digest of the transactions that checkpoint `number` was applied with; empty where it has none (H33)."""
    serial: int = 0
    """Invariant: each change of the slot increments it."""

    def encode(self) -> str:
        """Return the text that the store keeps."""
        document = {
            "format": FORMAT,
            "incarnation": self.owner.incarnation,
            "epoch": self.owner.epoch,
            "number": self.number,
            "applied": self.applied,
            "serial": self.serial,
        }
        return json.dumps(document, separators=(",", ":"))

    def shows(self, committables: Sequence[Committable]) -> bool:
        """Return whether checkpoint `number` was applied with these transactions."""
        return self.applied == digest(committables)


def decode_token(text: str, where: str) -> Token | None:
    """Return the token of this text; None for the empty text.

    Raises HeadFormatError for a token of a newer version, IdentityError for a text that is not a token.
    """
    if not text:
        return None
    try:
        document = json.loads(text)
        if isinstance(document, dict) and "format" in document:
            check_readable(document, f"the token of {where}", FORMAT)
            found = own_fields(document, _FIELDS, FORMAT)
            owner = Owner(str(found.pop("incarnation")), int(found.pop("epoch")))
            return Token(owner, **found)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    message = f"{where} holds a token that this framework did not write: {text[:80]!r}"
    raise IdentityError(message, remedy="no other program may change the token; restore the store from a backup")


def slot_key(pipeline: str, sink: str) -> str:
    """Return the slot of a sink of a pipeline: fixed-width ASCII, whatever the names contain."""
    return f"{sink_key(pipeline)}-{sink_key(sink)}"


def direct_slot(transaction: TransactionId) -> str:
    """Return the slot of a task that writes at-least-once: one for each number of a task, so few of them exist."""
    return f"{transaction.sink}-direct-{transaction.task}"


def transaction_name(transaction: TransactionId) -> str:
    """Return the name under which a store prepares a transaction."""
    return str(transaction).replace("/", ".")


def transaction_of(name: str) -> TransactionId | None:
    """Return the transaction of a name; None for a name that `transaction_name` did not give."""
    return TransactionId.parse(name.replace(".", "/"))


def digest(committables: Sequence[Committable]) -> str:
    """Return the digest of a checkpoint's transactions. A repaired transaction counts as the one it replaces (R7)."""
    names = sorted(str(origin(each)) for each in committables)
    return hashlib.sha256(" ".join(names).encode()).hexdigest()[:32] if names else ""
