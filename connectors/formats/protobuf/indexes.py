"""Confluent's header of a Protobuf record: the id of a schema, and the place of the message in it.

Source: Confluent Schema Registry, "Wire format": behind the id are the number of indexes and the indexes, as zig-zag
numbers of variable length. A number of 0 means the first message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from connectors.formats.framing import CONFLUENT
from connectors.formats.spans import Bytes, Flags, Ints, binary_of, content_of
from connectors.formats.varints import varints, zigzag

MOST_INDEXES: Final = 32
"""Levels of messages inside of messages."""
_HIGHEST: Final = 2**31 - 1

FAULTS: Final = (
    CONFLUENT.missing,
    "the header ends too early",
    f"the header has a negative number of message indexes, or more than {MOST_INDEXES}",
    "the header has a message index that no schema has",
)
"""Reasons of records with a wrong header."""


@dataclass(frozen=True, slots=True)
class Written:
    """The writer's message: a place in a schema."""

    schema_id: int
    path: tuple[int, ...]  # an index for each level


class Headers:
    """The headers of a batch."""

    def __init__(self, values: pa.Array) -> None:
        """`values`: a binary column without nulls."""
        self.data: Bytes
        self.data, self._start, self.end = content_of(values)
        _, marked = CONFLUENT.keys(values)
        self.fault: Ints = np.where(marked, -1, 0)
        """By record: the index of its reason in FAULTS, or -1."""
        self.body: Ints = np.where(marked, self._start + CONFLUENT.size, self.end)
        """Where each message begins."""
        rows: Ints = np.flatnonzero(marked)
        counts = self._read(rows)
        self._reject(rows, (counts < 0) | (counts > MOST_INDEXES), 2)
        counts = np.where(self.fault[rows] < 0, counts, 0)
        for level in range(int(counts.max(initial=0))):
            going = rows[(counts > level) & (self.fault[rows] < 0)]
            index = self._read(going)
            self._reject(going, (index < 0) | (index > _HIGHEST), 3)

    def _read(self, rows: Ints) -> Ints:
        """Read the next number of each record."""
        values, size, overlong = varints(self.data, self.body[rows])
        following = self.body[rows] + size
        self._reject(rows, following > self.end[rows], 1)
        self._reject(rows, overlong, 3)
        self.body[rows] = np.minimum(following, self.end[rows])
        return zigzag(values)

    def _reject(self, rows: Ints, wrong: Flags, fault: int) -> None:
        chosen = rows[wrong]
        self.fault[chosen[self.fault[chosen] < 0]] = fault

    def by_message(self) -> Iterator[tuple[Written, Ints]]:
        """Yield each message that records name, with their numbers."""
        good: Ints = np.flatnonzero(self.fault < 0)
        heads = binary_of(self.data, (self._start[good] + len(CONFLUENT.marker), self.body[good])).dictionary_encode()
        codes = heads.indices.to_numpy()
        for code, head in enumerate(heads.dictionary.to_pylist()):
            yield _parsed(head), good[codes == code]


def _parsed(head: bytes) -> Written:
    """Return the message that a valid header names."""
    numbers, at = [], 4
    data = np.frombuffer(head + bytes(16), np.uint8)
    while at < len(head):
        value, size, _ = varints(data, np.array([at]))
        numbers.append(int(zigzag(value)[0]))
        at += int(size[0])
    return Written(int.from_bytes(head[:4], "big"), tuple(numbers[1:]) or (0,))


def messages_in(values: Sequence[bytes]) -> list[Written] | None:
    """Return the messages that these values name; None if a value is not in Confluent's wire format."""
    headers = Headers(pa.array(values, pa.binary()))
    return None if (headers.fault >= 0).any() else [written for written, _ in headers.by_message()]
