"""`spark.readStream.format("eos_kafka")`: the Kafka source in anybody's streaming query.

See `spark_jobs.formats`, which registers it in a session.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from connectors.contracts import Source
from connectors.registry import build_source, refuse_network_location
from connectors.spec.mistakes import nearest
from connectors.spec.sources import KafkaEntry
from spark_jobs.pacing.turns import AlwaysDue
from spark_jobs.source import SourceReader
from spark_jobs.spark_log import local_folder
from twophase.errors import HeadFormatError, SpecError
from twophase.local_head import LocalHead
from twophase.values import StartingPoint

_PROPERTY: Final = "kafka."
_TEXTS: Final = (
    "bootstrap_servers",
    "topics_pattern",
    "starting_offsets",
    "on_bad_record",
    "isolation_level",
)
_OTHERS: Final = ("split_above", "join_below", "fail_on_data_loss")  # a number, true or false
_OWN: Final = ("location", "topics", "format", "schema", "max_records_per_checkpoint")
_ALLOWED: Final = (*_OWN, *_TEXTS, *_OTHERS)


class EosKafka(DataSource):
    """Options, as in the spec of a pipeline:

    - `bootstrap_servers`, and `topics` (with commas between) or `topics_pattern`
    - `format`: json (with `schema`, as Spark writes one), string or raw
    - `location`: a folder of this query's own on a local disk, where the first offsets are kept: Spark asks for them
      again after a crash in its first batch, and would get later ones
    - `starting_offsets`: earliest (default), latest, or JSON, as {"timestamp": "2026-01-31T12:00:00Z"}
    - `max_records_per_checkpoint`, `on_bad_record`, `isolation_level`, `fail_on_data_loss`, `split_above`,
      `join_below`
    - `kafka.<setting>`: librdkafka's own settings

    Raises SpecError that names the option.
    """

    @classmethod
    def name(cls) -> str:
        """See DataSource."""
        return "eos_kafka"

    def schema(self) -> StructType:
        """Decoded columns, then `_key, _topic, _partition, _offset, _timestamp, _headers`."""
        return from_arrow_schema(source_of(self.options).schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 Spark's name
        """Called when a query starts, and again in other processes: the first one stores where it begins."""
        source = source_of(self.options)
        return SourceReader(source, _began(source, self.options), AlwaysDue(_most(self.options)), token="")


def source_of(options: Mapping[str, str]) -> Source:
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
    form = {"type": given.get("format", "json")}
    entry |= {"name": "eos_kafka", "connector": "kafka", "properties": properties}
    entry["format"] = {**form, "schema": given["schema"]} if "schema" in given else form
    if entry.get("on_bad_record") == "dead-letter":
        message = "eos_kafka: on_bad_record: dead-letter needs a pipeline of a spec, whose checkpoint writes them"
        raise SpecError(message, remedy="use fail or skip")
    try:
        return build_source(KafkaEntry.model_validate(entry))
    except ValidationError as errors:
        found = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in errors.errors())
        raise SpecError(f"eos_kafka: {found}", remedy="correct the options") from None


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


def _began(source: Source, options: Mapping[str, str]) -> StartingPoint:
    """Where the query began: stored once, by whoever asks first (R6, H3). Asks Kafka for what is not stored yet."""
    if "location" not in options:
        message = "option location is missing: where the first offsets are kept"
        raise SpecError(message, remedy="a folder of this query's own, beside its checkpointLocation")
    location = local_folder(options["location"])
    refuse_network_location(location)
    register = LocalHead(location)
    while True:
        seen = register.read()
        known = _decoded(seen.value) if seen is not None else StartingPoint()
        found = source.starting_point(known)
        if seen is not None and not found.positions:
            return known
        both = StartingPoint({**found.positions, **known.positions}, {**found.identities, **known.identities})
        if register.swap(seen.version if seen is not None else 0, _encoded(both)):
            return both


def _encoded(point: StartingPoint) -> bytes:
    document: dict[str, Any] = {"format": 1, "positions": point.positions, "identities": point.identities}
    return json.dumps(document, sort_keys=True).encode()


def _decoded(content: bytes) -> StartingPoint:
    try:
        document = json.loads(content)
        return StartingPoint(document["positions"], document["identities"])
    except (ValueError, KeyError, TypeError) as error:
        message = f"the first offsets at option location are damaged: {error!r}"
        raise HeadFormatError(message, remedy="restore the folder from a backup") from error
