"""Witnesses of records that were planned: whether a log still has the records that its offsets named (H23).

A broker that is restored from a copy, and an unclean leader election, cut a log off. New records then get offsets that
count as read, under the same topic id. Leader epochs (KIP-320) show a log that a leader cut off, and not a restored
broker: it counts the epochs of its copy again. So a witness is the record itself: its offset, its time and a digest.

Compaction and retention never change a record. They delete records, and a record that is deleted proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from time import monotonic
from typing import Final, cast

from confluent_kafka import KafkaError, Message

from connectors.kafka.client import Client
from connectors.kafka.pool import borrowed_consumer, shared_admin
from connectors.kafka.positions import latest
from connectors.kafka.settings import Connection
from connectors.kafka.splits import Offsets, at, offset_of, split_of
from eos.errors import HeadFormatError, OffsetOutOfRangeError, SourceError
from twophase.values import OffsetRange

_POLL_S: Final = 0.2
_DISTANCES: Final = (1, 8, 128)  # offsets before the end of a range; its last ones may be markers of transactions
_AT_ONCE: Final = 1_000  # splits assigned together
_SMALL: Final = (
    ("fetch.message.max.bytes", "65536"),  # of each split one record is wanted
    ("fetch.wait.max.ms", "1"),  # the next request waits behind an empty answer that a broker holds back
)
_DELETED: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_FORM: Final = re.compile(r"(\d{1,19}):-?\d{1,19}:[0-9a-f]{16}")
_SPLIT: Final = re.compile(r"[^/]+/\d{1,9}")
_MOST: Final = 2**63 - 2  # so that the next offset is one, too
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def witnesses_of(connection: Connection, ranges: Sequence[OffsetRange]) -> dict[str, str]:
    """Return by split the witness of the last record of each range, without those of ranges that end in no record.

    Looks at the last 128 offsets of a range. Blocks for one round trip to the cluster as a rule, and for
    `read_timeout_s` at most. Raises SourceError if the cluster does not answer.
    """
    found: dict[str, str] = {}
    missing = [Offsets.of(each) for each in ranges if not each.is_empty]
    for distance in _DISTANCES:
        if not missing:
            break
        starts = {each.split: max(each.start, each.end - distance) for each in missing}
        ends = {each.split: each.end for each in missing}
        for message in _first_to_last(connection, starts, ends):
            found[split_of(message)] = _witness(message)
        missing = [each for each in missing if each.split not in found and starts[each.split] > each.start]
    return found


def check_witnesses(connection: Connection, witnesses: Mapping[str, str]) -> None:
    """Compare records with their witnesses, by split. A record that was deleted since is not judged.

    Blocks like `witnesses_of`.

    Raises:
        OffsetOutOfRangeError: a split has another record at the offset of its witness, or ends before it.
        SourceError: the cluster does not answer.
        HeadFormatError: a witness is damaged.
    """
    offsets = {split: _offset(split, witness) for split, witness in witnesses.items()}
    ends = {split: offset + 1 for split, offset in offsets.items()}
    found = {split_of(message): _witness(message) for message in _first_to_last(connection, offsets, ends)}
    for split, now in found.items():
        if now != witnesses[split]:
            raise _another(split, witnesses[split], now)


def _witness(message: Message) -> str:
    """Return `<offset>:<milliseconds since 1970>:<digest of key and value>`.

    Without headers: where the name of a header is not UTF-8, the client ends the process that asks for them twice.
    """
    digest = blake2b(digest_size=8)
    for part in cast("Sequence[bytes | None]", [message.key(), message.value()]):
        digest.update(b"-" if part is None else b"%d:%b" % (len(part), part))
    return f"{offset_of(message)}:{message.timestamp()[1]}:{digest.hexdigest()}"


def _offset(split: str, witness: object) -> int:
    found = _FORM.fullmatch(witness) if isinstance(witness, str) and _SPLIT.fullmatch(split) else None
    if found is None or int(found[1]) > _MOST:
        message = f"the witness of {split} in Spark's plan is damaged: {witness!r}"
        raise HeadFormatError(message, remedy="restore the checkpoint location from a backup, or `eos reset --to`")
    return int(found[1])


def _another(split: str, witness: str, now: str) -> OffsetOutOfRangeError:
    offset, before_ms, _ = witness.split(":")
    message = (
        f"{split}: the record at offset {offset} is another one than the pipeline has planned (its time was "
        f"{_time(before_ms)}, it is {_time(now.split(':')[1])}): the log went back in time, and offsets that count as "
        "read name records that the pipeline has not read"
    )
    return OffsetOutOfRangeError(message, remedy=_REMEDY)


_REMEDY: Final = (
    "find where the log differs from the log of before (docs/how-to/backup.md), and begin there by `eos reset --to "
    "<topic>/<partition>=<offset>,…`, which first says what is written twice; or restore Kafka, the checkpoint "
    "location and the sinks to one moment"
)


def _time(text_ms: str) -> str:
    """Return milliseconds as a time, or as they are where they are none."""
    try:
        return (_EPOCH + timedelta(milliseconds=int(text_ms))).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"{text_ms} ms"


def _first_to_last(connection: Connection, starts: Mapping[str, int], ends: Mapping[str, int]) -> Iterator[Message]:
    """Yield the records that exist in each `[start, end)`, of each split in order."""
    splits = list(starts)
    small = replace(connection, properties=(*connection.properties, *_SMALL))
    for first in range(0, len(splits), _AT_ONCE):
        with borrowed_consumer(small) as client:
            yield from _read(client, {split: starts[split] for split in splits[first : first + _AT_ONCE]}, ends)


def _read(client: Client, starts: Mapping[str, int], ends: Mapping[str, int]) -> Iterator[Message]:
    client.handle.assign([at(split, start) for split, start in starts.items()])
    under_way = set(starts)
    progress_at = monotonic()
    while under_way:
        for message in _chunk(client):
            split = split_of(message) if message.topic() else ""
            if message.error() is None and split in under_way:
                progress_at = monotonic()
                if offset_of(message) < ends[split]:
                    yield message
                if offset_of(message) >= ends[split] - 1:
                    under_way.discard(split)
                continue
            is_of_all = not split  # an event, which says that the client cannot go on
            if (is_of_all or split in under_way) and _is_over(client, message, ends.get(split, 0)):
                under_way.discard(split)
        waited_s = client.connection.read_timeout_s
        if under_way and monotonic() - progress_at > waited_s:
            raise client.no_answer(f"comparing the records of {', '.join(sorted(under_way)[:3])}", waited_s)


def _chunk(client: Client) -> list[Message]:
    first = client.handle.poll(_POLL_S)
    return [] if first is None else [first, *client.handle.consume(1_000, 0)]


def _is_over(client: Client, event: Message, end: int) -> bool:
    """Tell whether an event ends a split. Raises for an event that means a failure.

    Either the client has come to the end of the split, or the offset where it was to begin is deleted.
    """
    error, split = event.error(), split_of(event)
    assert error is not None
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return False  # to read what is assigned needs no group
    if error.code() not in _DELETED and error.code() != KafkaError._PARTITION_EOF:
        raise client.failure(error, f"comparing the records of {split}")
    with shared_admin(client.connection) as admin:
        found = latest(admin, [split])[split] if error.code() in _DELETED or offset_of(event) < end else end
    if found < end:
        message = f"{split} ends at {found}, and the pipeline has read it up to {end}: the log went back in time"
        raise OffsetOutOfRangeError(message, remedy=_REMEDY)
    if error.code() not in _DELETED and offset_of(event) < end:  # a leader that is new may say so for a moment
        doing = f"{split}: Kafka delivered no record up to {end}, and says that the split ends at {offset_of(event)}"
        raise SourceError(doing, remedy="it is asked again")
    return True
