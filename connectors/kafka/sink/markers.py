"""What Kafka keeps of a sink: records of a compacted topic, written in one transaction with the messages.

Of each key the newest committed record counts. Offsets of a consumer group would do as well, but a broker forgets them
a week after the pipeline was stopped (`offsets.retention.minutes`, H10); records of a compacted topic stay.

Claims are alone in partition 0, which is read at each checkpoint; the markers of the slots share the other partitions.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from zlib import crc32

from connectors.kafka.pool import borrowed_consumer, shared_admin
from connectors.kafka.positions import earliest, latest
from connectors.kafka.ranges import messages
from connectors.kafka.settings import Connection
from connectors.kafka.splits import split_name
from connectors.owner import Owner
from eos.errors import IdentityError, SinkUnavailableError
from twophase.codec import check_readable, own_fields
from twophase.retry import retrying
from twophase.values import OffsetRange

PARTITIONS: Final = 8
"""Of the topic; a further one is not used, so that a key never moves."""

FORMAT: Final = 1
"""Format of a record's value. Format 1 carries no number: the version that had no numbers refuses a further field."""

CLAIMS: Final = 0
"""Partition of all claims."""

_PAUSE_S: Final = 0.002  # the first: mostly a transaction is just being closed
_LONG_S: Final = 1.0
_REPORTED_AT: Final = 9  # attempts, after half a second

_log: Final = logging.getLogger("eos.sink")


class _OpenTransactionError(SinkUnavailableError):
    """A transaction is open below an end that is to be read."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Who owns a sink, and how many slots it has."""

    owner: Owner
    slots: int

    def record(self) -> dict[str, object]:
        """Its value."""
        return {"incarnation": self.owner.incarnation, "epoch": self.owner.epoch, "slots": self.slots}


@dataclass(frozen=True, slots=True)
class Marker:
    """How far a slot is."""

    applied: int  # the newest checkpoint; -1: none
    of: str = ""  # digest of what it was applied with
    begun: str = ""  # digest of what the next one is applied with, if it has begun
    rows: int = 0  # of that one, applied already

    def record(self) -> dict[str, object]:
        """Its value."""
        return {"applied": self.applied, "of": self.of, "begun": self.begun, "rows": self.rows}


_KNOWN: Final = frozenset({*Claim(Owner("", 0), 0).record(), *Marker(0).record(), "checkpoint_id"})
"""The fields of all kinds of records; `checkpoint_id` is a replay's."""


def encode(record: Mapping[str, object]) -> bytes:
    """Return the value of a record in the topic: a claim's, a marker's, or a replay's."""
    return json.dumps(record).encode()


def partition_of_marker(key: str) -> int:
    """Where the marker of this key is."""
    return 1 + crc32(key.encode()) % (PARTITIONS - 1)


class Markers:
    """The topic as a table. For several threads; every call may block, and raises SourceError.

    A call returns what was committed when it was made: it reads up to the end of the partition, past the last stable
    offset, and so waits for transactions that are still open there.
    """

    def __init__(self, connection: Connection, topic: str) -> None:
        # The end of a transaction is no record: only an empty answer tells that it is read, and is not to be held back.
        quick = (*connection.properties, ("fetch.wait.max.ms", "1"))
        self._connection = replace(connection, isolation_level="read_committed", properties=quick)
        self._to_the_end = replace(connection, isolation_level="read_uncommitted")
        self._topic = topic
        self._lock = threading.Lock()
        self._read: dict[str, int] = {}  # split -> everything below is in `_values`
        self._values: dict[tuple[int, bytes], bytes] = {}  # by partition and key; others may write there as well

    def forget(self) -> None:
        """Have the next call read the topic from its first record, as another process would."""
        with self._lock:
            self._read.clear()
            self._values.clear()

    def claim(self, key: str) -> Claim | None:
        """None: nobody has ever claimed it."""
        found = self._find(CLAIMS, [key]).get(key)
        if found is None:
            return None
        try:
            return Claim(Owner(str(found["incarnation"]), int(found["epoch"])), int(found["slots"]))
        except (KeyError, TypeError, ValueError):
            raise self._foreign(key) from None

    def markers(self, keys: Sequence[str]) -> Mapping[str, Marker]:
        """By key; what does not exist is left out."""
        return {key: self._marker(key, each) for key, each in self.found(keys).items()}

    def _marker(self, key: str, found: Mapping[str, Any]) -> Marker:
        try:
            return Marker(**found)
        except TypeError:
            raise self._foreign(key) from None

    def found(self, keys: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """The records of these keys, where markers are; what does not exist is left out."""
        found: dict[str, Mapping[str, Any]] = {}
        for partition in {partition_of_marker(key) for key in keys}:
            found |= self._find(partition, [key for key in keys if partition_of_marker(key) == partition])
        return found

    def _find(self, partition: int, keys: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        with self._lock:
            self._catch_up(partition)
            found = {key: self._values.get((partition, key.encode())) for key in keys}
        return {key: self._parsed(key, value) for key, value in found.items() if value is not None}

    def _parsed(self, key: str, value: bytes) -> Mapping[str, Any]:
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise self._foreign(key)
        document = {"format": 1, **parsed}
        check_readable(document, f"the record {key!r} of topic {self._topic}", FORMAT)
        return own_fields(document, _KNOWN, FORMAT)

    def _foreign(self, key: str) -> IdentityError:
        message = f"the record {key!r} of topic {self._topic} is not one of ours"
        return IdentityError(
            message, remedy="find the program that writes to that topic, and stop it: only the pipeline may write there"
        )

    def _catch_up(self, partition: int) -> None:
        split = split_name(self._topic, partition)
        with shared_admin(self._to_the_end) as admin:
            end = latest(admin, [split])[split]
            start = self._read[split] if split in self._read else earliest(admin, [split])[split]
        if end < start:
            message = f"topic {self._topic} was made again, or went back in time: it no longer says how far the sink is"
            raise IdentityError(message, remedy="read the target topics; then run `eos reset`")
        if end == start:
            return
        self._await_stable(split, end)
        with borrowed_consumer(self._connection) as client:
            for chunk in messages(client, [OffsetRange(split, start, end)]):
                for record in chunk:
                    key, value = record.key(), record.value()
                    if key is not None and value is not None:
                        self._values[partition, key] = value
        self._read[split] = end

    def _await_stable(self, split: str, end: int) -> None:
        """Until every transaction below `end` is over: one of another pipeline, cut off, ends by its timeout."""

        def attempt() -> None:
            with shared_admin(self._connection) as admin:
                stable = latest(admin, [split])[split]
            if stable < end:
                raise _OpenTransactionError(
                    f"{split}: a transaction is open there from offset {stable} on, which may be another pipeline's",
                    remedy="the brokers end it by its timeout, and it is tried again; else: kafka-transactions "
                    "find-hanging",
                )

        def report(attempts: int, error: BaseException | None) -> None:
            if attempts == _REPORTED_AT:
                _log.warning(
                    "%s: waiting until it ends, by its timeout at the latest", getattr(error, "message", error)
                )

        policy = retrying(
            _OpenTransactionError,
            deadline_s=self._connection.read_timeout_s,
            wait_s=_PAUSE_S,
            max_wait_s=_LONG_S,
            report=report,
        )
        policy(attempt)
