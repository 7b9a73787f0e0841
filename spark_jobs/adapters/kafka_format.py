"""`spark.readStream.format("eos_kafka")`: the Kafka source in any streaming query.

The first offsets of a source are stored at its option `location`, as a pipeline stores its own in head.
`spark_jobs.adapters.formats` registers the format in a session.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import ValidationError
from pyspark.sql.types import StructType

from connectors.api.mistakes import nearest
from connectors.kafka.entry import KafkaEntry
from connectors.registry import build_source, refuse_network_location
from eos.errors import HeadFormatError, IdentityError, OffsetOutOfRangeError, SpecError
from spark_jobs.query.pacing.turns import AlwaysDue, Turns
from spark_jobs.query.source import SourceReader
from spark_jobs.query.source_offset import SourceOffset, topic_of
from spark_jobs.query.spark_log import local_folder
from spark_jobs.query.streaming_api import DataSource, DataSourceStreamReader
from spark_jobs.session.arrow import from_arrow
from spark_jobs.session.versions import Way, require_spark
from twophase.codec import check_nothing_lost, check_readable, unknown_fields
from twophase.local_head import LocalHead
from twophase.values import StartingPoint

if TYPE_CHECKING:
    from connectors.api.contracts import Source
    from connectors.kafka.source import KafkaSource

WAY: Final = Way(
    'format("eos_kafka")', (4, 2), "a limit on the records that a source in Python plans", 'format("kafka") of Spark'
)
_PROPERTY: Final = "kafka."
_TEXTS: Final = (
    "bootstrap_servers",
    "topics_pattern",
    "starting_offsets",
    "on_bad_record",
    "isolation_level",
    "key_prefix",
)
_OTHERS: Final = ("split_above", "join_below", "fail_on_data_loss")  # a number, true or false
_OWN: Final = (
    *("location", "topics", "format", "schema", "key_format", "key_schema"),
    "max_records_per_checkpoint",
)
_ALLOWED: Final = (*_OWN, *_TEXTS, *_OTHERS)
FORMAT: Final = "eos_kafka"
"""What Spark calls the format; and what each of its sources called itself in offsets before they had ids."""

_DOCUMENT_FORMAT: Final = 1
_FIELDS: Final = frozenset({"positions", "identities", "source"})


@dataclass(frozen=True, slots=True)
class Begun:
    """What is kept. Nothing of it is ever changed; topics that are added to the options join."""

    location: str
    source_id: str  # in offsets, where Spark knows a source by nothing but its place in the query; empty: not yet given
    point: StartingPoint
    unknown: tuple[str, ...] = ()  # names of the fields that a newer version keeps there


def begun(source: KafkaSource, location: str) -> Begun:
    """Stored once, by whoever asks first (R6, H3). Asks Kafka for what is not stored yet.

    Raises IdentityError where all that is stored is of other topics, HeadFormatError where it is damaged or this
    version would write over what a newer one keeps there, SpecError for a place that does not do, and what
    `starting_point` raises.
    """
    why = "Spark's processes for this source reach none of its file systems"
    folder = local_folder(location, why, "give a folder on a local disk, which each start of the driver finds")
    refuse_network_location(folder)
    register = LocalHead(folder)
    while True:
        seen = register.read()
        known = _decoded(seen.value, location) if seen is not None else Begun(location, "", StartingPoint())
        _check_own(source, known)
        found = source.starting_point(known.point)
        if known.source_id and not found.positions:
            return known
        point = StartingPoint(
            {**found.positions, **known.point.positions}, {**found.identities, **known.point.identities}
        )
        check_nothing_lost(known.unknown, f"the first offsets at {location}")
        both = Begun(location, known.source_id or f"{FORMAT}-{secrets.token_hex(8)}", point)
        if register.swap(seen, _encoded(both)):
            return both


def _check_own(source: KafkaSource, known: Begun) -> None:
    topics = {topic_of(split) for split in known.point.positions}
    if topics and not any(source.reads(topic) for topic in topics):
        message = f"option location: {known.location} holds the first offsets of {', '.join(sorted(topics))}"
        remedy = "give each source a folder of its own; one that goes over to other topics names both for a start"
        raise IdentityError(f"{message}, of which the source reads none: it is another one's", remedy=remedy)


def _encoded(known: Begun) -> bytes:
    point = known.point
    document: dict[str, Any] = {
        "format": _DOCUMENT_FORMAT,
        "positions": point.positions,
        "identities": point.identities,
    }
    return json.dumps({**document, "source": known.source_id}, sort_keys=True).encode()


def _decoded(content: bytes, location: str) -> Begun:
    try:
        document = json.loads(content)
        check_readable(document, f"the file of the first offsets at {location}", _DOCUMENT_FORMAT)
        point = StartingPoint(document["positions"], document["identities"])
        return Begun(location, document.get("source", ""), point, unknown_fields(document, _FIELDS))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"the first offsets at option location are damaged: {error!r}"
        raise HeadFormatError(message, remedy="restore the folder from a backup") from error


class EosKafka(DataSource):
    """Options, as in the spec of a pipeline:

    - `bootstrap_servers`, and `topics` (with commas between) or `topics_pattern`
    - `format`: json (with `schema`, as Spark writes one), string or raw
    - `key_format` and `key_schema` for keys, whose columns have `key_prefix` in front of their names (default: `key_`)
    - `location`: a folder on a local disk, of this source's own where a query has several. The first offsets are kept
      there, since Spark asks for them again after a crash in its first batch, and would get later ones; and an id that
      tells this source's offsets from another one's
    - `starting_offsets`: earliest (default), latest, or JSON, as {"timestamp": "2026-01-31T12:00:00Z"}
    - `max_records_per_checkpoint`, `on_bad_record`, `isolation_level`, `fail_on_data_loss`, `split_above`,
      `join_below`
    - `kafka.<setting>`: librdkafka's own settings

    Raises SpecError that names the option.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        """Decoded columns, then `_key, _topic, _partition, _offset, _timestamp, _headers`."""
        return from_arrow(source_of(self.options).schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 Spark's name
        """Called when a query starts, and again in other processes: the first one stores where it begins."""
        require_spark(WAY)
        source, most = source_of(self.options), _most(self.options)
        if "location" not in self.options:
            message = "option location is missing: where the first offsets are kept"
            raise SpecError(message, remedy="a folder of this source's own, beside the query's checkpointLocation")
        return KafkaQueryReader(source, begun(source, self.options["location"]), AlwaysDue(most))


def source_of(options: Mapping[str, str]) -> KafkaSource:
    """The source that these options describe. Opens nothing; raises SpecError with all that is wrong."""
    given = {name.lower(): value for name, value in options.items()}
    properties = {name[len(_PROPERTY) :]: value for name, value in given.items() if name.startswith(_PROPERTY)}
    unknown = [name for name in given if name not in _ALLOWED and not name.startswith(_PROPERTY)]
    if unknown:
        near = nearest(unknown[0], _ALLOWED)
        message = f"unknown option {unknown[0]!r}" + (f"; did you mean {near!r}?" if near else "")
        raise SpecError(message, remedy=f"options: {', '.join(_ALLOWED)}, kafka.<setting of librdkafka>")
    entry: dict[str, object] = {name: given[name] for name in _TEXTS if name in given}
    entry |= {name: _plain(name, given[name]) for name in _OTHERS if name in given}
    if given.get("starting_offsets", "").startswith("{"):
        entry["starting_offsets"] = _plain("starting_offsets", given["starting_offsets"])
    if "topics" in given:
        entry["topics"] = [topic.strip() for topic in given["topics"].split(",")]
    entry |= {"name": FORMAT, "connector": "kafka", "properties": properties}
    entry["format"] = _form(given.get("format", "json"), given.get("schema"))
    if "key_format" in given or "key_schema" in given:
        entry["key_format"] = _form(given.get("key_format", "json"), given.get("key_schema"))
    if entry.get("on_bad_record") == "dead-letter":
        message = "eos_kafka: on_bad_record: dead-letter needs a pipeline of a spec, whose checkpoint writes them"
        raise SpecError(message, remedy="use fail or skip")
    try:
        return cast("KafkaSource", build_source(KafkaEntry.model_validate(entry)))
    except ValidationError as errors:
        found = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in errors.errors())
        raise SpecError(f"eos_kafka: {found}", remedy="correct the options") from None


def _form(kind: str, schema: str | None) -> dict[str, str]:
    return {"type": kind} if schema is None else {"type": kind, "schema": schema}


def _most(options: Mapping[str, str]) -> int | None:
    text = options.get("max_records_per_checkpoint", "")
    if text and not (text.isdecimal() and int(text) > 0):
        raise SpecError(f"option max_records_per_checkpoint: {text!r} is not a number", remedy="give one from 1 on")
    return int(text) if text else None


def _plain(name: str, text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        raise SpecError(f"option {name}: {text!r} is not JSON", remedy="a number, true, false, or {…}") from None


class KafkaQueryReader(SourceReader):
    """Reads as a pipeline's source does, in a query where sources have no names.

    Its offsets carry the id that is kept at `location`.
    """

    def __init__(self, source: KafkaSource, begun: Begun, turns: Turns) -> None:
        super().__init__(cast("Source", source), begun.point, turns, token="")
        self._name, self._location, self._reads = begun.source_id, begun.location, source.reads

    def _check_own(self, offset: SourceOffset) -> None:
        """See SourceReader. Offsets of before there were ids are taken where they are of this source's topics."""
        for topic, identity in offset.began.identities.items():
            if self._began.identities.get(topic, identity) != identity:  # stored since, as it was then
                message = f"topic {topic} was deleted and made again since the query began to read it"
                raise OffsetOutOfRangeError(message, remedy="begin anew, with other folders for it and the checkpoint")
        topics = sorted({topic_of(split) for split in offset.ends})
        if offset.source == self._name or (offset.source == FORMAT and all(map(self._reads, topics))):
            return
        message = (
            f"Spark takes the offsets of another eos_kafka source ({', '.join(topics)}) for those of the one whose "
            f"first offsets are at {self._location}"
        )
        remedy = (
            "the query names its sources in another order than before: change it back; where the folder was lost or "
            "exchanged, restore it from a backup; or begin anew, with other folders for it and the query's checkpoint"
        )
        raise IdentityError(message, remedy=remedy)
