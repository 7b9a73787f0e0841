"""Where a source of `eos_kafka` began, and which one it is: kept at its option `location`, as a pipeline's in head."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from connectors.registry import refuse_network_location
from eos.errors import HeadFormatError, IdentityError
from spark_jobs.query.source_offset import topic_of
from spark_jobs.query.spark_log import local_folder
from twophase.codec import check_nothing_lost, check_readable, unknown_fields
from twophase.local_head import LocalHead
from twophase.values import StartingPoint

if TYPE_CHECKING:
    from connectors.kafka.source import KafkaSource

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
    folder = local_folder(location)
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
