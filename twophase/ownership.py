"""The coordinator's hold on head: what it believes head to be, and the one way to change it (R1, R6, R8)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from twophase import messages
from twophase.errors import FencedError, HeadFormatError, HeadUnknownError, IdentityError
from twophase.head_value import HeadValue, RecordRef
from twophase.messages import Seen, Steps
from twophase.transitions import Transition
from twophase.values import CheckpointRecord

_NONCES_KEPT: Final = 8
_ROUNDS: Final = 8


@dataclass(slots=True)
class Ownership:
    """Head as this driver last wrote or saw it. Changed by `swap` alone, which several threads may run at once."""

    session: str  # random, unique to this driver: the first half of every nonce
    version: int  # never goes back
    head: HeadValue  # of that version; head.epoch is this driver's own, from the claim on
    swaps: int = 0
    counted: Mapping[str, int] = field(default_factory=dict)
    """By sink, the newest checkpoint that this driver knows it has counted. Invariant: never goes down. A sink that
    counts less went back in time, and takes no further checkpoint (H26)."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def stamped(self, head: HeadValue) -> HeadValue:
        """`head` with a nonce of its own."""
        with self._lock:
            self.swaps += 1
            nonce = f"{self.session}.{self.swaps}"
        return replace(head, nonces=(*head.nonces, nonce)[-_NONCES_KEPT:])

    def take(self, version: int, head: HeadValue) -> None:
        """Head was seen at this version; a thread that has seen a newer one came first."""
        with self._lock:
            if version > self.version:
                self.version, self.head = version, head

    def note_counted(self, counted: Mapping[str, int]) -> None:
        """Sinks have counted these checkpoints."""
        with self._lock:
            known = {sink: max(number, self.counted.get(sink, -1)) for sink, number in counted.items()}
            self.counted = {**self.counted, **known}

    def held(self) -> tuple[int, HeadValue]:
        """Version and head, of one moment."""
        with self._lock:
            return self.version, self.head

    def swap(self, transition: Transition, point: str) -> Steps[None]:
        """Change head by `transition`, whatever happens to the answers.

        Refused or unanswered: read head again. Another epoch: FencedError, and nothing more may be touched. Our nonce
        in it: it landed. The same epoch without it: somebody of our own came first, so that the transition is applied
        to what it left. Head unchanged: the same value is sent again, under the same nonce, so that it lands once
        whichever copy arrives.
        """
        version, head = self.held()
        value = self.stamped(transition.apply(head))
        silent = 0
        while silent < _ROUNDS:
            landed = yield messages.Swap(version, value, point)
            if landed:
                self.take(version + 1, value)
                return
            seen = yield messages.ReadHead()
            if seen is None:
                message = f"head of pipeline {value.pipeline} has vanished while it was running"
                raise IdentityError(message, remedy="restore the checkpoint location from a backup, or `eos reset`")
            found = value.nonces[-1] in seen.head.nonces
            if seen.head.epoch != (value if found else head).epoch:
                raise fenced(head, seen.head)  # also where it landed: who came after carries it to its end
            if found:
                self.take(seen.version, seen.head)
                return
            silent += 1
            if seen.version != version:
                silent = 0  # others of our own go on, and they are not without end
                (version, head) = seen.version, seen.head
                self.take(version, head)
                value = self.stamped(transition.apply(head))
        message = f"head did not take or answer {_ROUNDS} swaps in a row ({point})"
        raise HeadUnknownError(message, remedy="check the store of head; the next start finds out what landed")


def take_up(session: str, version: int) -> Steps[Ownership]:
    """Head as another process of the same run has left it. Raises FencedError if anybody has changed it since."""
    seen: Seen | None = yield messages.ReadHead()
    if seen is None or seen.version != version:
        message = f"fenced: head is at version {seen.version if seen else 0}, the tasks wrote under version {version}"
        raise FencedError(message, remedy="another driver of this pipeline has started since; stop one of them")
    return Ownership(session, version, seen.head)


def check_owned(owned: Ownership) -> Steps[None]:
    """Raise FencedError if another driver has claimed head since this one did."""
    seen: Seen | None = yield messages.ReadHead()
    if seen is None or seen.head.epoch != owned.head.epoch:
        raise fenced(owned.head, seen.head if seen is not None else owned.head)


def load(owned: Ownership, ref: RecordRef) -> Steps[CheckpointRecord]:
    """A record of a completed checkpoint. A newer driver may have pruned it while this one was held up (H12).

    Raises FencedError in that case, and HeadFormatError for one that is missing or damaged.
    """
    record: CheckpointRecord | HeadFormatError = yield messages.LoadRecord(ref)
    if isinstance(record, CheckpointRecord):
        return record
    seen: Seen | None = yield messages.ReadHead()
    if seen is not None and seen.head.epoch != owned.head.epoch:
        raise fenced(owned.head, seen.head)
    raise record


def fenced(mine: HeadValue, seen: HeadValue) -> FencedError:
    """The error of a driver that finds another epoch in head."""
    message = f"fenced: pipeline {mine.pipeline} is at epoch {seen.epoch}, this driver is epoch {mine.epoch}"
    return FencedError(message, remedy="another driver of this pipeline has started since; stop one of them")
