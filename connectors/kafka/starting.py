"""Where a pipeline begins to read: `starting_offsets`, resolved once for each split and then kept in head (R6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from connectors.kafka.client import Client
from connectors.kafka.group import group_offsets
from connectors.kafka.positions import at_time, earliest, latest
from eos.errors import OffsetOutOfRangeError, SpecError

Edge = Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True)
class FromTimestamp:
    """The first record at or after a moment; the end of a split that has none."""

    timestamp_ms: int  # since 1970, UTC


@dataclass(frozen=True, slots=True)
class FromGroup:
    """The offsets that a consumer group has committed, to take over from another program."""

    group: str
    otherwise: Edge | None = None  # of splits for which the group has none; None: refuse to start


@dataclass(frozen=True, slots=True)
class FromOffsets:
    """Exactly these."""

    offsets: Mapping[str, int]  # by split
    otherwise: Edge | None = None  # of splits that are not named; None: refuse to start


StartingOffsets = Edge | FromTimestamp | FromGroup | FromOffsets


def resolve(client: Client, starting: StartingOffsets, splits: Sequence[str]) -> dict[str, int]:
    """The first offset to read of each split. Asks the cluster; blocks for a few times `connect_timeout_s` at most.

    Raises:
        SpecError: a split has no such offset, and nothing is said about that.
        SourceError: the cluster does not answer.
    """
    match starting:
        case FromTimestamp():
            return at_time(client, splits, starting.timestamp_ms)
        case FromGroup():
            known = group_offsets(client, starting.group)
            return _completed(client, known, starting.otherwise, splits, f"group {starting.group} has no offset of")
        case FromOffsets():
            return _completed(client, starting.offsets, starting.otherwise, splits, "starting_offsets do not name")
        case _:
            return _edge(client, starting, splits)


def check_named(starting: StartingOffsets, splits: Sequence[str]) -> None:
    """Refuse offsets of splits that are not there: a slip would begin elsewhere. Called at the very first start."""
    unknown = sorted(set(starting.offsets) - set(splits)) if isinstance(starting, FromOffsets) else []
    if unknown:
        message = f"starting_offsets name {', '.join(unknown[:10])}, which the source does not have"
        raise SpecError(message, remedy=f"it has {', '.join(sorted(splits)[:10])}")


def _edge(client: Client, edge: Edge, splits: Sequence[str]) -> dict[str, int]:
    return earliest(client, splits) if edge == "earliest" else latest(client, splits)


def _completed(
    client: Client, known: Mapping[str, int], otherwise: Edge | None, splits: Sequence[str], what: str
) -> dict[str, int]:
    missing = [split for split in splits if split not in known]
    if missing and otherwise is None:
        message = f"{what} {', '.join(missing[:10])}"
        raise SpecError(message, remedy="say where these begin, with `otherwise: earliest` or `otherwise: latest`")
    given = {split: known[split] for split in splits if split in known}
    _check_exist(client, given)
    return given | (_edge(client, otherwise, missing) if missing and otherwise else {})


def _check_exist(client: Client, given: Mapping[str, int]) -> None:
    first, end = earliest(client, given), latest(client, given)
    for split, offset in given.items():
        if not first[split] <= offset <= end[split]:
            message = f"{split} cannot begin at offset {offset}: it has [{first[split]}, {end[split]})"
            raise OffsetOutOfRangeError(message, remedy="correct `starting_offsets`")
