"""What polls of the sources tell: how much is unread, and which records exist and cannot be read yet.

A planner polls its source for each plan. Of withheld records the run adds since when, which outlives its process in
`withheld.json` at the checkpoint location. The file decides nothing: `eos status` and the page read it, and a start
without it begins anew.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from connectors.api.contracts import Horizon, Source
from twophase.positions import Position, Positions, distance, total

_log = logging.getLogger("eos.runner")

NAME: Final = "withheld.json"

_KEEP_S: Final = 10.0
"""Greatest age of the file while records are withheld and nothing changes."""
_OVERDUE_S: Final = 60.0
"""A transaction of a healthy producer is shorter, as a rule: a record is late by as much."""
_REPEAT_S: Final = 600.0
_SHOWN: Final = 3  # splits in a message


@dataclass(frozen=True, slots=True)
class WithheldSplit:
    """The records of one split that exist and cannot be read yet."""

    source: str
    split: str
    begin: Position  # first one that cannot be read
    end: Position  # next one after the last record that exists
    since: float  # time of the first poll with this `begin`; seconds since 1970, as the next one
    at: float  # time of the newest poll
    reason: str  # as in "waiting for an open transaction"

    @property
    def records(self) -> int | None:
        """Offsets between the two: with gaps (markers, aborted records) more than records. None: not known."""
        return distance(self.begin, self.end)


@dataclass(frozen=True, slots=True)
class Poll:
    """What one poll of a source has told."""

    source: str
    at: float  # time of its answer
    reason: str  # of `splits`
    splits: Mapping[str, Sequence[Position]]  # of withheld records, begin and end: see WithheldSplit
    unread: int | None = 0  # offsets that can be read, and that no plan before has taken; None: some

    @classmethod
    def of(cls, source: Source, horizon: Horizon, taken: Positions) -> Poll:
        """Of an answer that has just arrived. `taken`: ends of the plans before, by split."""
        splits = {split: (horizon.ends[split], end) for split, end in horizon.withheld.items()}
        begins = {**horizon.discovered.positions, **taken}
        unread = total(distance(begins.get(split, end), end) for split, end in horizon.ends.items())
        return cls(source.name, time.time(), source.withheld_by, splits, unread)

    def write(self, path: Path) -> None:
        """Whole or not at all. Not synced. Raises OSError."""
        _write(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> Poll | None:
        """None: there is no file any more."""
        try:
            return cls(**json.loads(path.read_text()))
        except FileNotFoundError:
            return None


def read_withheld(location: Path) -> tuple[WithheldSplit, ...]:
    """By source and split, as the newest run at this location left them. Empty where the file cannot be read."""
    try:
        found = json.loads((location / NAME).read_text())["splits"]
        names = WithheldSplit.__slots__  # of any version
        return tuple(WithheldSplit(**{name: each[name] for name in names}) for each in found)
    except (OSError, ValueError, KeyError, TypeError):
        return ()


@dataclass(slots=True)
class Withheld:
    """The withheld records of all sources of a run. Used by the thread that waits for the query."""

    location: Path
    remedies: Mapping[str, str]  # by source
    splits: tuple[WithheldSplit, ...] = ()  # by source and split
    _polled: dict[str, float] = field(default_factory=dict)  # source -> time of its newest poll
    _kept_at: float = 0.0
    _told_at: float = 0.0
    _is_unwritable: bool = False

    @classmethod
    def at(cls, location: Path, sources: Iterable[Source]) -> Withheld:
        """With the state that the run before this one left, so that "since" outlives a process."""
        remedies = {source.name: source.withheld_remedy for source in sources}
        found = tuple(each for each in read_withheld(location) if each.source in remedies)
        return cls(location, remedies, found)

    def observe(self, polls: Iterable[Poll]) -> bool:
        """Take in polls and keep the result. False: every poll is known already."""
        new = [each for each in polls if each.at > self._polled.get(each.source, 0.0)]
        if not new:
            return False
        before, polled = self.splits, {each.source for each in new}
        since = {(each.source, each.split, each.begin): each.since for each in before}
        found = [each for each in before if each.source not in polled]
        for poll in new:
            self._polled[poll.source] = poll.at
            for split, (begin, end) in poll.splits.items():
                first_seen = since.get((poll.source, split, begin), poll.at)
                found.append(WithheldSplit(poll.source, split, begin, end, first_seen, poll.at, poll.reason))
        self.splits = tuple(sorted(found, key=lambda each: (each.source, each.split)))
        now = max(self._polled.values())
        if _without_time(self.splits) != _without_time(before) or (found and now - self._kept_at > _KEEP_S):
            self._keep(now)
        return True

    def warn_if_overdue(self, now: float) -> None:
        """Log, at most every ten minutes, splits that have been withheld for more than a minute."""
        overdue = [each for each in self.splits if now - each.since > _OVERDUE_S]
        if overdue and now - self._told_at > _REPEAT_S:
            self._told_at = now
            self.warn(overdue, now)

    def warn(self, splits: Sequence[WithheldSplit], now: float) -> None:
        """Log these splits, and what to do."""
        for source in sorted({each.source for each in splits}):
            own = [each for each in splits if each.source == source]
            _log.warning("%s: %s", describe(own, now), self.remedies[source])

    def _keep(self, now: float) -> None:
        self._kept_at = now
        try:
            _write(self.location / NAME, {"splits": [asdict(each) for each in self.splits]})
            self._is_unwritable = False
        except OSError as error:
            if not self._is_unwritable:
                _log.warning("%s is not kept: %s", self.location / NAME, error.strerror)
            self._is_unwritable = True


def describe(splits: Sequence[WithheldSplit], now: float) -> str:
    """Splits of one source in words, those with the oldest begin first."""
    oldest = sorted(splits, key=lambda each: each.since)
    shown = ", ".join(f"{each.split} {_counted(each.records)}from {each.begin}" for each in oldest[:_SHOWN])
    more = f" and {len(oldest) - _SHOWN} more partitions" if len(oldest) > _SHOWN else ""
    since = datetime.fromtimestamp(oldest[0].since, UTC)
    waited_s = max(now - oldest[0].since, 0)
    return f"waiting for {oldest[0].reason} since {since:%Y-%m-%d %H:%M:%S} UTC ({waited_s:.0f} s): {shown}{more}"


def _counted(records: int | None) -> str:
    return f"{records:,} offsets " if records is not None else ""


def _without_time(splits: Sequence[WithheldSplit]) -> list[WithheldSplit]:
    return [replace(each, at=0.0) for each in splits]


def _write(path: Path, document: object) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(document))
    partial.replace(path)
