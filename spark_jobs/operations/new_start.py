"""Where a new life of a pipeline begins on request, and what that means for each split: written twice, or never."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from connectors.registry import build_source
from connectors.spec import SourceEntry, Spec
from eos.errors import SpecError
from spark_jobs.query.source_offset import topic_of
from twophase.head_value import HeadValue
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
    was_at: int | None  # next offset of the life that ends; None: it has not read this split
    start: int
    end: int  # of the split now, as far as it can be read
    written_again: int  # were read in that life, and are read again
    never_written: int  # are there, were not read in that life, and are left out


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

    Raises SpecError for a split or an offset that there is not, SourceError if a service does not answer.
    """
    if not spec.sources:
        raise SpecError("the spec names no sources", remedy="where it begins to read is said by the job that uses it")
    begins: dict[str, StartingPoint] = {}
    splits: list[SplitStart] = []
    named: set[str] = set()
    for entry in spec.sources:
        first = build_source(entry.starting_at("earliest")).starting_point(_NOWHERE)
        last = build_source(entry.starting_at("latest")).starting_point(_NOWHERE)
        known = _known(entry.name, first, head)
        if isinstance(wanted, str):
            positions = dict((first if wanted == "earliest" else last).positions)
        else:
            named |= wanted.keys() & first.positions.keys()
            positions = _chosen(entry, wanted, first, known)
        begins[entry.name] = StartingPoint(positions, first.identities)
        splits += _effects(entry.name, positions, first, last, known, head)
    if not isinstance(wanted, str) and (unknown := sorted(wanted.keys() - named)):
        there = ", ".join(sorted(each.split for each in splits)[:10])
        raise SpecError(f"no source reads {', '.join(unknown)}", remedy=f"there are {there}")
    return begins, splits


def _known(source: str, first: StartingPoint, head: HeadValue | None) -> dict[str, int]:
    """Positions of the life that ends, without those of a topic that was made again: they name other records."""
    if head is None:
        return {}
    ids, positions = head.identities.get(source, {}), head.positions.get(source, {})
    again = {topic for topic, identity in first.identities.items() if ids.get(topic, identity) != identity}
    return {split: at for split, at in positions.items() if topic_of(split) not in again}


def _chosen(
    entry: SourceEntry, wanted: Mapping[str, int], first: StartingPoint, known: Mapping[str, int]
) -> dict[str, int]:
    begun = {split: at for split, at in {**known, **wanted}.items() if split in first.positions}
    topics = {topic_of(split) for split in begun}
    identities = {topic: identity for topic, identity in first.identities.items() if topic in topics}
    others = build_source(entry).starting_point(StartingPoint(begun, identities)).positions
    return {split: {**others, **begun}.get(split, offset) for split, offset in first.positions.items()}


def _effects(
    source: str,
    positions: Mapping[str, int],
    first: StartingPoint,
    last: StartingPoint,
    known: Mapping[str, int],
    head: HeadValue | None,
) -> Iterator[SplitStart]:
    initial = head.initial.get(source, {}) if head is not None else {}
    for split, start in sorted(positions.items()):
        least, end, was_at = first.positions[split], last.positions[split], known.get(split)
        if not least <= start <= end:
            message = f"{split} cannot begin at offset {start}: it has [{least}, {end})"
            raise SpecError(message, remedy="give an offset that it has, earliest or latest")
        began = initial.get(split, was_at) if was_at is not None else None
        again = max(was_at - max(start, began), 0) if was_at is not None and began is not None else 0
        unread = max(least, was_at) if was_at is not None else least
        yield SplitStart(source, split, was_at, start, end, again, max(start - unread, 0))
