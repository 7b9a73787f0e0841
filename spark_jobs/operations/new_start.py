"""Where a new life of a pipeline begins on request, and what that means for each split: written twice, or never."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from connectors.api.contracts import Source
from connectors.registry import build_source
from connectors.sources.built import BuiltSource
from connectors.spec import Spec
from eos.errors import SpecError
from spark_jobs.query.source_offset import topic_of
from twophase.head_value import HeadValue
from twophase.positions import Position, distance, is_before
from twophase.values import StartingPoint

Edge = Literal["earliest", "latest"]
Wanted = Edge | Mapping[str, int]
"""An end of the topics, or offsets of single splits; the others, all of them if none is named, go on where they are."""

_OFFSET: Final = re.compile(r"(?P<split>[^=,\s/]+/[0-9]{1,9})=(?P<offset>[0-9]{1,18})")
_FORMS: Final = "give completed, earliest, latest, or offsets: orders/0=17,orders/1=4"
_NOWHERE: Final = StartingPoint()


@dataclass(frozen=True, slots=True)
class SplitStart:
    """One split's part of a new start. Offsets count: with gaps (markers, compaction) there are fewer records."""

    source: str
    split: str
    was_at: Position | None  # next position of the life that ends; None: it has not read this split
    start: Position
    end: Position  # of the split now, as far as it can be read
    written_again: int | None  # were read in that life, and are read again; None: some
    never_written: int | None  # are there, were not read in that life, and are left out; None: some


def parse(text: str) -> Wanted:
    """The value of `--to` and `--from`. Raises SpecError."""
    edge: Edge | None = "earliest" if text == "earliest" else "latest" if text == "latest" else None
    if edge is not None:
        return edge
    offsets: dict[str, int] = {}
    for part in text.split(",") if text != "completed" else ():
        match = _OFFSET.fullmatch(part.strip())
        if match is None:
            raise SpecError(f"{part.strip()!r} is not where a pipeline could begin", remedy=_FORMS)
        if match["split"] in offsets:
            raise SpecError(f"{match['split']} stands twice", remedy=_FORMS)
        offsets[match["split"]] = int(match["offset"])
    return offsets


def resolve(spec: Spec, wanted: Wanted, head: HeadValue | None) -> tuple[dict[str, StartingPoint], list[SplitStart]]:
    """Where each source begins, and what that means. Asks the services; changes nothing.

    Splits that `wanted` does not name go on where `head` is; those that it does not know, either, begin by
    `starting_offsets`, or at their first record where the topic is known already, as in any run.

    Raises SpecError for a split or an offset that there is not, SourceError if a service does not answer, and
    OffsetOutOfRangeError if a small source does not list a split that was read.
    """
    if not spec.sources:
        raise SpecError("the spec names no sources", remedy="where it begins to read is said by the job that uses it")
    begins: dict[str, StartingPoint] = {}
    splits: list[SplitStart] = []
    named: set[str] = set()
    for entry in spec.sources:
        source = build_source(entry)
        horizon = source.horizon(_NOWHERE)
        first, last = horizon.discovered, horizon.ends
        known = _known(entry.name, first, head)
        positions: Mapping[str, Position]
        if isinstance(wanted, str):
            positions = dict(first.positions if wanted == "earliest" else last)
        else:
            named |= wanted.keys() & first.positions.keys()
            if isinstance(source, BuiltSource):  # a listing may lack a split: it would begin at its first record later
                source.horizon(StartingPoint({split: at for split, at in known.items() if split not in wanted}))
            positions = _chosen(source, wanted, first, known)
        begins[entry.name] = StartingPoint(positions, first.identities)
        splits += _effects(entry.name, positions, first.positions, last, known, head)
    if not isinstance(wanted, str) and (unknown := sorted(wanted.keys() - named)):
        there = ", ".join(sorted(each.split for each in splits)[:10])
        raise SpecError(f"no source reads {', '.join(unknown)}", remedy=f"there are {there}")
    return begins, splits


def _known(source: str, first: StartingPoint, head: HeadValue | None) -> dict[str, Position]:
    """Positions of the life that ends, without those of a topic that was made again: they name other records."""
    if head is None:
        return {}
    ids, positions = head.identities.get(source, {}), head.positions.get(source, {})
    again = {topic for topic, identity in first.identities.items() if ids.get(topic, identity) != identity}
    return {split: at for split, at in positions.items() if not {split, topic_of(split)} & again}


def _chosen(
    source: Source, wanted: Mapping[str, int], first: StartingPoint, known: Mapping[str, Position]
) -> dict[str, Position]:
    begun = {split: at for split, at in {**known, **wanted}.items() if split in first.positions}
    named = {*begun, *map(topic_of, begun)}
    identities = {key: identity for key, identity in first.identities.items() if key in named}
    others = source.starting_point(StartingPoint(begun, identities)).positions
    return {split: {**others, **begun}.get(split, offset) for split, offset in first.positions.items()}


def _effects(
    source: str,
    positions: Mapping[str, Position],
    first: Mapping[str, Position],
    last: Mapping[str, Position],
    known: Mapping[str, Position],
    head: HeadValue | None,
) -> Iterator[SplitStart]:
    initial = head.initial.get(source, {}) if head is not None else {}
    for split, start in sorted(positions.items()):
        least, end, was_at = first[split], last[split], known.get(split)
        if type(start) is not type(end):
            message = f"{split} cannot begin at offset {start}: its positions are not offsets"
            raise SpecError(message, remedy="give completed, earliest or latest")
        if is_before(start, least) or is_before(end, start):
            message = f"{split} cannot begin at offset {start}: it has [{least}, {end})"
            raise SpecError(message, remedy="give an offset that it has, earliest or latest")
        began = initial.get(split, was_at) if was_at is not None else None
        again = distance(_later(start, began), was_at) if was_at is not None and began is not None else 0
        unread = _later(least, was_at) if was_at is not None else least
        yield SplitStart(source, split, was_at, start, end, again, distance(unread, start))


def _later(one: Position, other: Position) -> Position:
    return other if is_before(one, other) else one
