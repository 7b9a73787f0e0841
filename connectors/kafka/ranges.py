"""The records of offset ranges, as the client delivers them.

What a range ends in need not be a record: markers of transactions, records of aborted ones and offsets that compaction
has emptied are never delivered. So a range is over when a record at or past its end comes, or when the client says
(partition EOF) that it has come to the end of the partition at or past it. That nothing came for a while says nothing.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import inf
from time import monotonic
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message

from connectors.kafka.client import Client
from connectors.kafka.pool import shared_admin
from connectors.kafka.positions import earliest, end_of, existing
from connectors.kafka.splits import Offsets, at, offset_of, parse_split, split_of
from eos.errors import ConnectorError, OffsetOutOfRangeError, SourceError
from twophase.values import OffsetRange

_log: Final = logging.getLogger("eos.source")
_MAX_MESSAGES: Final = 10_000
_MAX_CHUNK_BYTES: Final = 8 * 1024 * 1024
_FIRST_MESSAGES: Final = 1_000  # while the size of a record is not known yet
_AT_ONCE: Final = 8  # ranges: of each the client fetches ahead
_POLL_S: Final = 0.2
_ASK_EVERY_S: Final = 3.0  # while nothing comes
_LEADERS_S: Final = 2.0  # without an answer the client finds the leaders by itself
_LEADERS_FOR_S: Final = 600.0  # the client forgets after 15 minutes


def messages(client: Client, ranges: Sequence[OffsetRange], *, skip_lost: bool = False) -> Iterator[list[Message]]:
    """Yield the records that exist in each `[start, end)`, in lists of one split, in order, of bounded number and size.

    Called once per task. Blocks while records come, and for `read_timeout_s` while none do. Several ranges are read at
    once: where they are small, most of the time of each is the way to the broker and back.

    Args:
        client: a consumer with nothing assigned.
        ranges: of different splits, none of them empty.
        skip_lost: begin at the first record that there is, with a warning, where retention has deleted `start`.

    Raises:
        OffsetOutOfRangeError: the service no longer has `start`, or lost what the range was planned over.
        SourceError: nothing came for `read_timeout_s`; names the split and the position.
    """
    _find_leaders(client, {parse_split(each.split)[0] for each in ranges})
    for first in range(0, len(ranges), _AT_ONCE):
        some = ranges[first : first + _AT_ONCE]
        yield from _together(client, {each.split: _Reading(client, each) for each in some}, skip_lost=skip_lost)


def _find_leaders(client: Client, topics: Iterable[str]) -> None:
    """Query who leads these topics, where that is not known: a millisecond for each.

    The client queries for topics that it has begun to read about once a second, so 100 topics would take 18 s. An error
    is left to reading, which meets it, too.
    """
    now_s = monotonic()
    for topic in topics:
        if client.led_at_s.get(topic, -inf) < now_s - _LEADERS_FOR_S:
            try:
                client.handle.list_topics(topic, timeout=_LEADERS_S)
            except KafkaException as error:
                _log.debug("the leaders of topic %s: %s", topic, client.connection.hide(str(error)))
                return
            client.led_at_s[topic] = now_s


def _together(client: Client, readings: Mapping[str, _Reading], *, skip_lost: bool) -> Iterator[list[Message]]:
    """Read until each is over."""
    under_way, any_of_them = dict(readings), next(iter(readings.values()))
    is_assigned = False
    while under_way:
        if not is_assigned:
            client.handle.assign([at(split, reading.position) for split, reading in under_way.items()])
            is_assigned = True
        most = max(reading.chunk_messages for reading in under_way.values())
        for split, chunk in _by_split(_chunk(client, most), readings, list(under_way)):
            reading = readings.get(split, any_of_them)  # which refuses what is not its own
            try:
                records = reading.take(chunk)
            except OffsetOutOfRangeError:
                if not skip_lost or not reading.skip_lost():
                    raise
                records, is_assigned = [], False
            if records:
                yield records
            if reading.is_over and split in under_way:
                del under_way[split]
                if under_way and is_assigned:
                    # More of it may come, and would be fetched for nothing. To assign the others anew would begin their
                    # fetching again, each time.
                    client.handle.incremental_unassign([at(split, reading.position)])


def _by_split(
    chunk: list[Message], readings: Mapping[str, _Reading], under_way: Sequence[str]
) -> Iterable[tuple[str, list[Message]]]:
    """Group what came by split. If nothing came, each split gets that, and asks why. An event may be of no split."""
    if not chunk or len(readings) == 1:
        return [(split, chunk) for split in under_way]
    grouped = groupby(chunk, lambda message: split_of(message) if message.topic() else under_way[0])
    return ((split, list(group)) for split, group in grouped)


def _chunk(client: Client, size: int) -> list[Message]:
    """What is there, waiting only if there is nothing: `consume` by itself would wait until it has `size`."""
    first = client.handle.poll(_POLL_S)
    return [] if first is None else [first, *client.handle.consume(size - 1, 0)]


def size_of(chunk: Sequence[Message]) -> int:
    """Return the bytes of keys and values."""
    return sum(map(len, chunk)) + sum(map(len, filter(None, map(Message.key, chunk))))


class _Reading:
    """How far a range is read."""

    def __init__(self, client: Client, offsets: OffsetRange) -> None:
        self._client = client
        self._range = Offsets.of(offsets)
        self._progress_at = self._asked_at = monotonic()
        self.position = self._range.start  # every record below it that exists has been taken
        self.chunk_messages = min(_FIRST_MESSAGES, self._range.end - self._range.start + 1)

    @property
    def is_over(self) -> bool:
        """Nothing is missing."""
        return self.position >= self._range.end

    def take(self, chunk: list[Message]) -> list[Message]:
        """The records of a chunk that belong to the range, having moved the position."""
        before = self.position
        if any(map(Message.error, chunk)):
            chunk = [message for message in chunk if self._is_record(message)]
        if chunk:
            self._check_split(chunk[0])
            self._check_order(chunk[0], before)
            self.position = max(self.position, offset_of(chunk[-1]) + 1)
            self._size_chunks(chunk)
            if self.position > self._range.end:
                chunk = chunk[: bisect_left(chunk, self._range.end, key=offset_of)]
        if self.position > before:
            self._progress_at = monotonic()
        else:
            self._wait()
        return chunk

    def skip_lost(self) -> bool:
        """Move the position to the first record that retention has left, and say so; False if it took none of these."""
        with shared_admin(self._client.connection) as admin:
            first = earliest(admin, [self._range.split])[self._range.split]
        lost_end = min(first, self._range.end)
        if lost_end <= self.position:
            return False
        _log.warning(
            "skipped records that retention has deleted: %s, offsets [%d, %d)",
            self._range.split,
            self.position,
            lost_end,
        )
        self.position = lost_end
        self._progress_at = monotonic()
        return True

    def _wait(self) -> None:
        """Nothing new: ask now and then whether there still is something to wait for, and give up in the end."""
        if self.is_over:
            return
        now = monotonic()
        if now - self._progress_at > self._client.connection.read_timeout_s:
            raise self._stalled()
        if now - max(self._progress_at, self._asked_at) > _ASK_EVERY_S:
            self._asked_at = now
            self._end_now()

    def _is_record(self, message: Message) -> bool:
        """Tell a record from an event, and deal with the event."""
        error = message.error()
        if error is None:
            return True
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return False  # the client looks for a group's coordinator by itself; to read what is assigned needs none
        if error.code() != KafkaError._PARTITION_EOF:
            raise self._failure(error)
        self._check_split(message)
        self.position = max(self.position, offset_of(message))
        return False

    def _check_split(self, message: Message) -> None:
        """The client was used for other ranges before: what was left of one must not be taken for this one's."""
        found = split_of(message)
        if found != self._range.split:
            raise SourceError(f"{self._range.split}: Kafka delivered offset {offset_of(message)} of {found}")

    def _check_order(self, first: Message, position: int) -> None:
        if offset_of(first) < position:
            raise SourceError(f"{self._range.split}: Kafka delivered offset {offset_of(first)} after {position - 1}")

    def _size_chunks(self, chunk: list[Message]) -> None:
        mean_bytes = size_of(chunk) // len(chunk) + 1
        self.chunk_messages = max(1, min(_MAX_MESSAGES, _MAX_CHUNK_BYTES // mean_bytes)) + 1

    def _failure(self, error: KafkaError) -> ConnectorError:
        split, position = self._range.split, self.position
        failure = self._client.failure(error, f"reading {split} at offset {position}")
        if isinstance(failure, OffsetOutOfRangeError):
            return self._out_of_range(f"offset {position} does not exist")
        return failure

    def _out_of_range(self, what: str) -> OffsetOutOfRangeError:
        with shared_admin(self._client.connection) as admin:
            there = existing(admin, self._range.split)
        return OffsetOutOfRangeError(
            f"{self._range.split}: {what}, and the checkpoint covers [{self._range.start}, {self._range.end}): {there}",
            remedy="its records are gone (retention, deleted, or the topic was made again): "
            "reset the pipeline to start from what exists",
        )

    def _end_now(self) -> int | None:
        """Where the split ends by the cluster's answer; None if it does not answer. Raises what waiting cannot cure."""
        with shared_admin(self._client.connection) as admin:
            try:
                return end_of(admin, self._range.split)
            except SourceError as error:
                if not error.retriable:
                    raise
                return None

    def _stalled(self) -> ConnectorError:
        """Nothing came for too long: say whether the records are late or lost."""
        split, start, planned = self._range.split, self._range.start, self._range.end
        doing = f"reading {split} at offset {self.position} of [{start}, {planned})"
        waited_s = self._client.connection.read_timeout_s
        end = self._end_now()
        if end is None:
            return self._client.no_answer(doing, waited_s)
        if end < planned:
            return self._out_of_range(f"the log ends at {end} now")
        return SourceError(
            f"{doing}: nothing came for {waited_s:g} s, though the log goes on to {end}",
            remedy="see whether the broker is overloaded; the range is read again from its start",
        )
