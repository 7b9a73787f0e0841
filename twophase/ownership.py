"""The coordinator's hold on head: what it believes head to be, and the one way to change it (R1, R6, R8)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from eos.errors import FencedError, HeadUnknownError, IdentityError
from twophase import messages
from twophase.head_value import HeadValue, RecordRef
from twophase.messages import HeadSnapshot, Steps
from twophase.transitions import Transition
from twophase.values import CheckpointRecord

_NONCES_KEPT: Final = 8
_ROUNDS: Final = 8

RESTORE_NEWEST: Final = (
    "its store came back from an older copy (a fail-over to a replica that lagged, a backup): stop every driver, "
    "restore the newest head, and start again; without it see docs/how-to/backup.md (Head was set back)"
)


@dataclass(frozen=True, slots=True)
class Held:
    """Names one head of one history: a version, and the nonce of the swap that wrote it."""

    version: int
    nonce: str

    @classmethod
    def of(cls, seen: HeadSnapshot) -> Held:
        """Return the name of this head."""
        return cls(seen.version, seen.head.nonces[-1] if seen.head.nonces else "")


@dataclass(slots=True)
class Ownership:
    """Head as this driver last wrote or saw it. Changed by `swap` alone, which several threads may run at once."""

    session: str  # random, unique to this driver: how every nonce of its own begins
    version: int  # never goes back; 0: head was never written
    head: HeadValue  # of that version; head.epoch is this driver's own, from the claim on
    swaps: int = 0
    counted: Mapping[str, int] = field(default_factory=dict)
    """By sink, the newest checkpoint that this driver knows it has counted. Invariant: never goes down. A sink that
    counts less went back in time, and takes no further checkpoint (H26)."""
    content: bytes | None = None  # of `head`, see messages.Seen
    away: Mapping[str, int] = field(default_factory=dict)
    """Sinks that this driver has started without and that have not joined since, with what each counted for certain.

    Invariant: none of them was claimed in this epoch, and none is asked anything except by its join (H32)."""
    absent: frozenset[str] = frozenset()
    """Sinks that were away at the start. Each keeps its slots in this epoch, also once it has joined: what waits there
    was written for as many."""
    waiting: tuple[CheckpointRecord, ...] = ()  # decided before this epoch, and not committed in the sinks of `away`
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def stamp(self, head: HeadValue) -> Steps[HeadValue]:
        """Return `head` with a nonce that was never used, not even by this driver before it was set back (H33)."""
        drawn = yield from messages.DrawNonce()
        with self._lock:
            self.swaps += 1
            nonce = f"{self.session}.{self.swaps}-{drawn}"
        return replace(head, nonces=(*head.nonces, nonce)[-_NONCES_KEPT:])

    def take(self, seen: HeadSnapshot) -> None:
        """Hold this head, unless another thread has already taken a newer one."""
        with self._lock:
            if seen.version > self.version:
                self.version, self.head, self.content = seen.version, seen.head, seen.content

    def note_counted(self, counted: Mapping[str, int]) -> None:
        """Sinks have counted these checkpoints."""
        with self._lock:
            known = {sink: max(number, self.counted.get(sink, -1)) for sink, number in counted.items()}
            self.counted = {**self.counted, **known}

    @property
    def present(self) -> tuple[str, ...] | None:
        """The sinks that are claimed in this epoch; None: every sink."""
        away = self.away
        return tuple(name for name in self.head.sinks if name not in away) if away else None

    def joined(self, sink: str) -> None:
        """This sink is claimed now."""
        with self._lock:
            self.away = {name: count for name, count in self.away.items() if name != sink}

    def held(self) -> HeadSnapshot:
        """Return the newest head that this driver has written or taken, of one moment."""
        with self._lock:
            return HeadSnapshot(self.version, self.head, self.content)

    def expected(self) -> HeadSnapshot | None:
        """Return what a swap of `held` expects; None: head was never written."""
        held = self.held()
        return held if held.version else None

    def continues(self, known: HeadSnapshot, seen: HeadSnapshot) -> bool:
        """Whether head has gone on from `known`, see `continues`.

        A driver that has written nothing yet, and meets a head that others have changed more often than it names, has
        nothing of its own to miss.
        """
        own = f"{self.session}."
        is_far = seen.version >= known.version + len(seen.head.nonces)
        has_written = any(nonce.startswith(own) for nonce in known.head.nonces)
        return (is_far and not has_written) or continues(known, seen, own)

    def swap(self, transition: Transition, point: str) -> Steps[None]:
        """Change head by `transition`, whatever happens to the answers.

        Refused or unanswered: read head again. A newer epoch: FencedError, and nothing more may be touched. A head that
        lacks what this driver has written or seen: IdentityError (H29). Our nonce in it: it landed. The same epoch
        without it: somebody of our own came first, so that the transition is applied to what it left. Head unchanged:
        the same value is sent again, under the same nonce, so that it lands once whichever copy arrives.
        """
        basis = self.held()
        value = yield from self.stamp(transition.apply(basis.head))
        silent = 0
        while silent < _ROUNDS:
            landed = yield from messages.Swap(basis, value, point)
            if landed:
                self.take(HeadSnapshot(basis.version + 1, value))
                return
            known = self.held()  # before the read: another thread may land more while it is under way
            seen = yield from messages.ReadHead()
            if seen is None:
                message = f"head of pipeline {value.pipeline} has vanished while it was running"
                raise IdentityError(message, remedy="restore the checkpoint location from a backup, or `eos reset`")
            found = value.nonces[-1] in seen.head.nonces
            if seen.head.epoch > (value if found else basis.head).epoch:
                raise fenced_error(basis.head, seen.head)  # also where it landed: who came after carries it to its end
            if not self.continues(known, seen):
                raise head_set_back(known.head, seen)
            if found:
                self.take(seen)
                return
            silent += 1
            if seen.version != basis.version:
                silent = 0  # others of our own go on, and they are not without end
                basis = seen
                self.take(seen)
                value = yield from self.stamp(transition.apply(seen.head))
        message = f"head did not take or answer {_ROUNDS} swaps in a row ({point})"
        raise HeadUnknownError(message, remedy="check the store of head; the next start finds out which swap landed")


def continues(known: HeadSnapshot, seen: HeadSnapshot, own: str) -> bool:
    """Whether `seen` is `known`, or the swaps that have changed it since came after `known` (H29).

    Each swap adds its nonce at the end, so that the newest nonce of `known` stands as many places before the end as
    swaps came after it. Where so many came that it is gone, all that are left have to be one's own.

    `own`: how one's own nonces begin.
    """
    ahead = seen.version - known.version
    if 0 <= ahead < len(seen.head.nonces):
        return seen.head.nonces[-1 - ahead] == known.head.nonces[-1]
    return ahead > 0 and all(nonce.startswith(own) for nonce in seen.head.nonces)


def take_up(session: str, held: Held) -> Steps[Ownership]:
    """Head as another process of the same run has left it. Raises FencedError if anybody has changed it since."""
    seen = yield from messages.ReadHead()
    if seen is None or Held.of(seen) != held:
        found = seen.version if seen else 0
        message = f"fenced: head is at version {found}, the tasks wrote under version {held.version}"
        if found == held.version:
            message = f"fenced: head is at version {found} as the tasks wrote under, but by another driver's swaps"
        raise FencedError(message, remedy="another driver of this pipeline has started since; stop one of them")
    return Ownership(session, seen.version, seen.head, content=seen.content)


def check_owned(owned: Ownership) -> Steps[None]:
    """Raise FencedError if another driver has claimed head since this one did, IdentityError if head went back."""
    known = owned.held()
    seen = yield from messages.ReadHead()
    if seen is None or seen.head.epoch > known.head.epoch:
        raise fenced_error(known.head, seen.head if seen is not None else known.head)
    if not owned.continues(known, seen):
        raise head_set_back(known.head, seen)


def load(owned: Ownership, ref: RecordRef) -> Steps[CheckpointRecord]:
    """A record of a completed checkpoint. A newer driver may have pruned it while this one was held up (H12).

    Raises FencedError in that case, and HeadFormatError for one that is missing or damaged.
    """
    record = yield from messages.LoadRecord(ref)
    if isinstance(record, CheckpointRecord):
        return record
    seen = yield from messages.ReadHead()
    if seen is not None and seen.head.epoch != owned.head.epoch:
        raise fenced_error(owned.head, seen.head)
    raise record


def head_set_back(mine: HeadValue, seen: HeadSnapshot) -> IdentityError:
    """The error of a driver that finds a head without the swaps that it has written or seen (H29)."""
    now = seen.head
    message = (
        f"head of pipeline {mine.pipeline} was set back: it lacks what this driver has written. This driver knows "
        f"epoch {mine.epoch} with checkpoint {mine.completed} completed and {mine.committed} committed; head is at "
        f"version {seen.version}, epoch {now.epoch}, with checkpoint {now.completed} completed and {now.committed} "
        "committed"
    )
    return IdentityError(message, remedy=RESTORE_NEWEST)


def fenced_error(mine: HeadValue, seen: HeadValue) -> FencedError:
    """The error of a driver that finds another epoch in head."""
    message = f"fenced: pipeline {mine.pipeline} is at epoch {seen.epoch}, this driver is epoch {mine.epoch}"
    return FencedError(message, remedy="another driver of this pipeline has started since; stop one of them")
