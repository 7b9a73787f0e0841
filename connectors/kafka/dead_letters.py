"""Dead letters in a topic, and records that are sent to a topic once more, each once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from confluent_kafka import Producer

from connectors.dead_letter_names import MESSAGE_HEADERS
from connectors.dead_letters import LAST_ID, DeadLetter, newest
from connectors.formats.plain import RawFormat
from connectors.kafka.pool import shared_admin
from connectors.kafka.settings import Connection
from connectors.kafka.sink.markers import CLAIMS, Markers, encode, partition_of_marker
from connectors.kafka.sink.place import MARKERS, Place
from connectors.kafka.sink.producer import FencedProducerError, TransactionalProducer
from connectors.kafka.sink.target import Topics, check_timeout, ensure_markers, in_sink_words
from connectors.kafka.source import KafkaSource
from connectors.kafka.splits import as_offset
from eos.errors import SinkUnavailableError
from twophase.positions import Position
from twophase.values import OffsetRange, StartingPoint

_NUMBERS: Final = frozenset({"partition", "offset", "checkpoint_id"})
_ALWAYS: Final = frozenset({"eos.error", "eos.checkpoint_id"})


def read_dead_letters(
    bootstrap_servers: str, topic: str, properties: Mapping[str, str], most: int | None = None, reached: int = LAST_ID
) -> list[DeadLetter]:
    """Return all committed dead letters in the topic's order, or the `most` newest ones. Blocks. Raises SourceError.

    `reached`: see `newest`.

    With `most`, it reads that many offsets of each partition: fewer messages where Kafka's markers take offsets.
    """
    whole = KafkaSource(
        "dead_letter", bootstrap_servers, (topic,), RawFormat(), properties=properties, on_bad_record="skip"
    )  # a message whose headers cannot be read is none of ours
    source = whole.select(["value", "_key", "_headers"])
    begin = source.starting_point(StartingPoint()).positions
    ends = source.horizon(StartingPoint(begin)).ends
    ranges = [OffsetRange(split, _first(at, ends[split], most), ends[split]) for split, at in sorted(begin.items())]
    letters = (letter for batch in source.read(ranges) for letter in _letters(batch))
    return list(letters) if most is None else newest(letters, most, reached)


def _first(start: Position, end: Position, most: int | None) -> Position:
    return start if most is None else max(as_offset(start), as_offset(end) - most)


def _letters(batch: pa.RecordBatch) -> list[DeadLetter]:
    """Of messages; what is none of ours is left out."""
    found = []
    for row in batch.to_pylist():
        pairs = [(each["key"], each["value"]) for each in row["_headers"] or []]
        own: dict[str, bytes] = {}
        expected = reversed(MESSAGE_HEADERS)
        for name, value in reversed(pairs):  # ours come last, in order: the record itself may have such headers
            if name not in expected:  # moves on to it
                break
            own[name] = value or b""
        if (columns := _columns(own)) is None:
            continue
        headers = pairs[: len(pairs) - len(own)]
        found.append(DeadLetter.of({**columns, "key": row["_key"], "value": row["value"], "headers": headers}))
    return found


def _columns(own: Mapping[str, bytes]) -> dict[str, object] | None:
    """What our headers of a message say; None where they are not of a pipeline's making: anybody may write there."""
    if not own.keys() >= _ALWAYS:
        return None
    told = {column: own[name] for name, column in MESSAGE_HEADERS.items() if name in own}
    try:
        return {name: int(each) if name in _NUMBERS else each.decode() for name, each in told.items()}
    except ValueError:  # UnicodeDecodeError is one
        return None


@dataclass(frozen=True, slots=True)
class Replay:
    """Sends records to a topic of the cluster that they came from. Picklable; opens nothing by itself.

    Each is sent once, for readers of committed records: with it, in the same Kafka transaction, goes a marker of its
    place, of what it is and of the topic, so that whatever becomes of a call, the next one knows. Of two calls at once
    the later one ends the earlier one's transaction.
    """

    pipeline: str
    bootstrap_servers: str
    properties: Mapping[str, str]
    topic: str
    markers: str = MARKERS

    def send(self, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        """Those that no call before has sent there, with their keys, values and headers; returns them.

        Raises TargetError, SinkUnavailableError: then nothing of this call is seen, or all of it.
        """
        settings = tuple(sorted(self.properties.items()))
        connection = Connection(self.bootstrap_servers, group_id=f"eos-{self.pipeline}", properties=settings)
        place = Place(connection, self.topic, markers=self.markers)
        facts = Topics.of_sink("replay", place)
        with in_sink_words("replay"), shared_admin(connection) as admin:
            ensure_markers(admin, self.markers)
            check_timeout(admin, place)
        try:
            producer = TransactionalProducer(place, f"eos.{self.pipeline}.replay", facts.batch_bytes)
            try:
                by_key = {self._key(each): each for each in letters}
                keys = [*by_key, *map(self._key_before, letters)]
                with in_sink_words("replay, reading what was sent"):  # once nobody else can send any more
                    sent = Markers(connection, self.markers).found(keys)
                done = {self._key(each) for each in letters if self._key_before(each) in sent} | sent.keys()
                left = [each for key, each in by_key.items() if key not in done]
                if left:
                    self._send(producer, left)
                return left
            finally:
                producer.close()
        except FencedProducerError:
            message = "another replay of this pipeline has begun meanwhile"
            raise SinkUnavailableError(message, remedy="wait until it has ended, then call it again") from None

    def _key(self, letter: DeadLetter) -> str:
        """Return the key of the record's marker. Without the source: several sources may read one topic.

        No name of a source begins with a digit, so the key equals no `_key_before`.
        """
        return f"eos.{self.pipeline}.replay.2.{letter.place}.{letter.digest}.{self.topic}"

    def _key_before(self, letter: DeadLetter) -> str:
        """Return the key that versions up to 0.2.0 wrote."""
        return f"eos.{self.pipeline}.replay.{letter.source}.{letter.place}.{letter.digest}.{self.topic}"

    def _send(self, producer: TransactionalProducer, letters: Sequence[DeadLetter]) -> None:
        def hand_over(handle: Producer) -> None:
            for each in letters:
                handle.produce(self.topic, each.value, each.key, headers=list(each.headers))
                key = self._key(each)
                marker = encode({"checkpoint_id": each.checkpoint_id})
                handle.produce(self.markers, marker, key.encode(), partition_of_marker(key))

        size_bytes = sum(len(each.value or b"") + len(each.key or b"") for each in letters)
        producer.begin()
        producer.produce(hand_over, 2 * len(letters), size_bytes)
        last = {"replayed": len(letters), "to": self.topic}
        producer.commit(f"eos.{self.pipeline}.replay", CLAIMS + 1, last)
