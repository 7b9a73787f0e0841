"""Head in two parts, where a source has many splits: the value of the register, and beside it what is known of splits.

A register's value goes over the network twice with each swap: as what is expected, and as what is new. What grows with
the splits changes only with completed checkpoints, and where splits are found. So where it is longer than `PART_BYTES`,
it is an immutable content among the records, stored before the swap that names it by its hash (R6).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from eos.errors import HeadFormatError
from twophase.codec import (
    NO_SPLITS,
    Part,
    Splits,
    decode_head,
    decode_splits,
    encode_head,
    encode_splits,
    sha256_of,
    splits_of,
)
from twophase.head import HeadStore, Versioned
from twophase.head_value import HeadValue
from twophase.messages import HeadSnapshot

PART_BYTES: Final = 32 * 1024
"""That of some 600 splits. Up to it the value holds all, and versions that know no parts read it."""

_KEPT_EPOCHS: Final = 16
"""So many starts keep their parts where none of them completes a checkpoint: a head may be set back over some."""

_NAME: Final = re.compile(r"splits-([0-9a-z]{20})-([0-9a-f]{8})-([0-9a-f]{12})-[0-9a-f]{16}\.json")


@dataclass(slots=True)
class PartedHead:
    """The head of one store. Threads share it; every call may block on the store."""

    store: HeadStore
    part_bytes: int = PART_BYTES
    _stored: set[str] = field(default_factory=set)  # names of parts that are there, see `_doubt`
    _record: tuple[str, bytes] | None = None  # name and content of the newest that was put
    _is_doubted: bool = False  # whether the store may lack `_record` although it was put
    has_parts: bool = False  # whether this process has stored or read one
    _encoded: tuple[HeadValue, bytes, str] | None = None  # the newest that was: its splits, and their hash
    _loaded: tuple[Part, Splits] | None = None  # the newest that was
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    """Held from where a part is stored to where head names it: nothing is pruned in between."""

    def read(self) -> HeadSnapshot | None:
        """Head as it is now; None: the pipeline never ran. Raises HeadError.

        A running driver may prune a part between the read of head and that of the part: then head is read again.
        """
        with self._lock:
            read = self.store.read()
            while read is not None:
                try:
                    return HeadSnapshot(read.version, decode_head(read.value, self._load), read.value)
                except HeadFormatError:
                    before, read = read, self.store.read()
                    if read == before:
                        raise
        return None

    def put_record(self, name: str, content: bytes) -> None:
        """See HeadStore.put_record. For a record that a swap is about to name."""
        with self._lock:
            self.store.put_record(name, content)
            self._record = name, content

    def swap(self, expected: HeadSnapshot | None, head: HeadValue) -> bool:
        """See HeadStore.swap. All that the new value names is stored before; it lands only where that is there (R6).

        The store may have become a replica that lacks what was put, and yet holds what the swap expects. So after a
        swap that was refused or not answered, what the next one names is put again.
        """
        with self._lock:
            before, known = None, frozenset[str]()
            if expected is not None:  # as the register holds it: another version may have encoded it in another way
                content = expected.content if expected.content is not None else self._encode(expected.head)[0]
                before = Versioned(expected.version, content)
                known = frozenset(ref.name for ref in expected.head.records)
            needs = [ref.name for ref in head.records if ref.name not in known]
            if self._is_doubted and self._record is not None and self._record[0] in needs:
                self.store.put_record(*self._record)
            value, part = self._encode(head)
            if part is not None:
                self._put_part(part.name, head)
                needs.append(part.name)
            landed = False
            try:
                landed = self.store.swap(before, value, needs)
            finally:
                self._doubt(doubted=not landed)
            return landed

    def prune(self) -> None:
        """Delete the parts that no head has named since the oldest checkpoint whose record is kept. Raises HeadError.

        So a head that was set back by no more than that finds its part, as it finds its records.
        """
        with self._lock:
            names = [name for name in self.store.list_records() if _NAME.fullmatch(name)]
            read = self.store.read() if names else None
            if read is None:
                return
            for name in superfluous(names, decode_head(read.value, lambda _: NO_SPLITS)):
                self.store.delete_record(name)
                self._stored.discard(name)

    def _encode(self, head: HeadValue) -> tuple[bytes, Part | None]:
        """The value, and the part that it names; the same head always has the same ones."""
        content, sha256 = self._encode_splits(head)
        if len(content) <= self.part_bytes:
            return encode_head(head), None
        name = f"splits-{head.incarnation}-{head.epoch:08x}-{head.completed + 1:012x}-{sha256[:16]}.json"
        return encode_head(head, Part(name, sha256)), Part(name, sha256)

    def _put_part(self, name: str, head: HeadValue) -> None:
        """Store the splits of this head, if they were not."""
        if name not in self._stored:
            self.store.put_record(name, self._encode_splits(head)[0])
            self._stored.add(name)
            self.has_parts = True

    def _doubt(self, *, doubted: bool) -> None:
        """After a swap: one that has landed shows that the store has all that head names."""
        self._is_doubted = doubted
        if doubted:
            self._stored.clear()

    def _encode_splits(self, head: HeadValue) -> tuple[bytes, str]:
        """With its hash. What a swap expects is what the one before it wrote, and most swaps leave it as it is."""
        known = self._encoded
        if known is None or any(a is not b for a, b in zip(splits_of(head), splits_of(known[0]), strict=True)):
            content = encode_splits(head)
            self._encoded = known = head, content, sha256_of(content)
        return known[1:]

    def _load(self, part: Part) -> Splits:
        if self._loaded is None or self._loaded[0] != part:
            self._loaded = part, decode_splits(self.store.get_record(part.name), part)
            self._stored.add(part.name)
            self.has_parts = True
        return self._loaded[1]


def superfluous(stored: Iterable[str], head: HeadValue) -> Iterator[str]:
    """Those of these parts that may go: of lives before this one, of checkpoints before head's oldest record, and of
    starts long ago that stood where head stands.

    Invariant: neither what head names is among them nor what a swap is about to name, which continues this head, or
    will be refused. The part of a head is of its life, its epoch and its newest completed checkpoint.
    """
    oldest = head.records[0].checkpoint_id if head.records else -1
    for name in stored:
        if (match := _NAME.fullmatch(name)) is not None:
            life, epoch, completed = match[1], int(match[2], 16), int(match[3], 16) - 1
            is_long_ago = completed == head.completed and epoch < head.epoch - _KEPT_EPOCHS
            if (completed < oldest or is_long_ago) if life == head.incarnation else epoch < head.epoch:
                yield name
