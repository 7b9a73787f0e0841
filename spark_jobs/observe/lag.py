"""The lag of a pipeline: the end of each split, measured at the source, minus the position that head has decided.

A lag is a number with an age, or unknown with a reason. It is unknown if the newest measurement failed, if it is too
old, or if a source does not know its ends. The newest measurement is in `lag.json` at the checkpoint location: every
process shows the same number. The file decides nothing, and a file that cannot be read is ignored.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from connectors.api.contracts import MeasuredSource, Source
from connectors.foreign import foreign
from eos.errors import EosError, OffsetOutOfRangeError, SourceError
from spark_jobs.observe.history.model import SplitLag
from twophase.head_value import HeadValue
from twophase.positions import Position, distance, is_before, total

NAME: Final = "lag.json"

EVERY_S: Final = 5.0
"""Time between two measurements of a source."""
_FRESH_S: Final = 30.0
_FRESH_ROUNDS: Final = 3
"""A measurement is too old after `_FRESH_S`, or after this number of missed measurements if that is longer."""

_PATIENCE_S: Final = 15.0

NOT_MEASURED: Final = "not measured yet"
NOT_BEGUN: Final = "the pipeline has no starting position yet"
DOES_NOT_KNOW: Final = "the source does not know its ends"
_CORRECT: Final = "correct the source: docs/tutorial/plugins.md lists the results and errors of its calls"


@dataclass(frozen=True, slots=True)
class SourceLag:
    """The newest measurement of one source."""

    source: str
    at: float | None = None  # time of the newest success, in seconds since 1970; None: never
    splits: tuple[SplitLag, ...] = ()  # of the newest success, by split
    withheld: Mapping[str, Sequence[Position]] = field(default_factory=dict)
    """By split, begin and end of the records that exist and cannot be read yet. Of the newest success."""
    failure: str = ""  # reason why the newest attempt failed; empty: it is the success
    every_s: float = EVERY_S
    incarnation: str = ""  # of the newest success

    def unknown(self, now: float) -> str:
        """Return the reason why the lag is unknown now; empty if it is known."""
        if self.failure:
            return self.failure
        if self.at is None:
            return NOT_MEASURED
        if abs(now - self.at) > max(_FRESH_S, _FRESH_ROUNDS * self.every_s):  # a clock may also be set back
            return "the driver does not measure it: it is stopped, paused or overloaded"
        if self.measured is None:
            return f"source {self.source} has records to read, and does not count them"
        return ""

    @property
    def measured(self) -> int | None:
        """Offsets between position and end at the newest success; None: positions do not count records."""
        return total(each.records for each in self.splits)

    @property
    def withheld_records(self) -> int | None:
        """Offsets that existed and could not be read at the newest success; None: they are not counted."""
        return total(distance(begin, end) for begin, end in self.withheld.values())

    def failed(self, reason: str) -> SourceLag:
        """Return this lag after a failed attempt. It keeps the newest success."""
        return replace(self, failure=reason)


@dataclass(frozen=True, slots=True)
class Lag:
    """The newest measurement of each source of a pipeline, in the order of the spec."""

    sources: tuple[SourceLag, ...] = ()  # empty: no spec names the sources

    def unknown(self, now: float) -> str:
        """Return the reason why the lag is unknown now; empty if it is known."""
        if not self.sources:
            return NOT_MEASURED
        return next((reason for each in self.sources if (reason := each.unknown(now))), "")

    def records(self, now: float) -> int | None:
        """Return the lag over all sources; None if it is unknown."""
        return None if self.unknown(now) else self.measured

    @property
    def measured(self) -> int | None:
        """The number of the newest successes, whatever their age; None if a source has none or does not count."""
        return total(each.measured for each in self.sources) if self.at is not None else None

    @property
    def at(self) -> float | None:
        """Time of the oldest of the newest successes; None if a source has none."""
        found = [each.at for each in self.sources if each.at is not None]
        return min(found) if found and len(found) == len(self.sources) else None

    def age_s(self, now: float) -> float | None:
        """Return the age of the number, known or not; None if it was never measured."""
        return max(now - self.at, 0.0) if self.at is not None else None

    @property
    def splits(self) -> tuple[SplitLag, ...]:
        """All splits, by source and split."""
        return tuple(split for each in self.sources for split in each.splits)

    @property
    def withheld_records(self) -> int | None:
        """Offsets that exist and cannot be read yet, over all sources. They are not part of the lag."""
        return total(each.withheld_records for each in self.sources)


def measure(source: Source, head: HeadValue | None, before: SourceLag) -> SourceLag:
    """Measure the lag of a source. Blocks for as long as the source does. Raises nothing.

    `head`: read before the call, because no position may be newer than its end. `before`: kept where the attempt fails.
    """
    if head is None or source.name not in head.initial:
        return before.failed(NOT_BEGUN)
    try:
        with foreign(f"source {source.name}: `current_ends`", SourceError, _CORRECT):
            return _measured(source, head, before.every_s)
    except EosError as error:
        return before.failed(error.message)


def _measured(source: Source, head: HeadValue, every_s: float) -> SourceLag:
    known = head.known(source.name)
    horizon = source.current_ends(known) if isinstance(source, MeasuredSource) else None
    at = time.time()
    if horizon is None:
        raise SourceError(DOES_NOT_KNOW)
    positions = {**horizon.discovered.positions, **known.positions}
    for split, end in horizon.ends.items():
        if split not in positions:
            raise SourceError(f"source {source.name}: {split} has no starting position yet")
        if is_before(end, positions[split]):
            message = f"{split} ends at {end}, before the position {positions[split]} of the pipeline"
            raise OffsetOutOfRangeError(message)
    splits = (SplitLag(at, source.name, split, end, positions[split]) for split, end in sorted(horizon.ends.items()))
    withheld = {split: (horizon.ends[split], end) for split, end in horizon.withheld.items()}
    return SourceLag(source.name, at, tuple(splits), withheld, every_s=every_s, incarnation=head.incarnation)


def measure_now(sources: Sequence[Source], head: HeadValue | None, before: Lag) -> Lag:
    """Measure all sources at once, in a process that does not run the pipeline. Blocks for `_PATIENCE_S` at most.

    `head`: read before the call. `before`: the newest measurement of the driver, kept where an attempt fails.
    """
    known = {each.source: each for each in before.sources}
    found: dict[str, SourceLag] = {}

    def work(source: Source) -> None:
        name = source.name
        found[name] = replace(measure(source, head, known.get(name, SourceLag(name))), every_s=EVERY_S)

    threads = [threading.Thread(target=work, args=(source,), daemon=True) for source in sources]
    for thread in threads:
        thread.start()
    until_s = time.monotonic() + _PATIENCE_S
    for thread in threads:
        thread.join(max(until_s - time.monotonic(), 0.0))
    late = f"the source did not answer within {_PATIENCE_S:g} s"
    names = [source.name for source in sources]
    return Lag(tuple(found.get(name) or known.get(name, SourceLag(name)).failed(late) for name in names))


def describe(lag: Lag, now: float, ago: Callable[[float], str] = "{:.0f} s".format) -> str:
    """Return the lag in words: `25,000 records, 2 s ago`, or `unknown: …`. `ago`: words for an age."""
    age_s, number = lag.age_s(now), lag.measured
    last = f"{number:,} records, {ago(age_s)} ago" if number is not None and age_s is not None else ""
    if reason := lag.unknown(now):
        return f"unknown: {reason}{last and f' (last: {last})'}"
    return last


def write_lag(location: Path, lag: Lag) -> None:
    """Replace the file at the checkpoint location. Not synced. Raises OSError."""
    document = {
        "sources": [
            {
                "source": each.source,
                "at": each.at,
                "splits": [[split.split, split.end, split.position] for split in each.splits],
                "withheld": each.withheld,
                "failure": each.failure,
                "every_s": each.every_s,
                "incarnation": each.incarnation,
            }
            for each in lag.sources
        ]
    }
    path = location / NAME
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(document))
    partial.replace(path)


def read_lag(location: Path, sources: Sequence[str], head: HeadValue | None = None) -> Lag:
    """Return the newest measurement of these sources by the newest run at this location.

    A source that the file lacks is not measured yet, as are all sources where the file cannot be read. So is a source
    whose measurement is of another incarnation than `head`: its positions are from before a reset.
    """
    try:
        found = {each["source"]: _source_lag(each) for each in json.loads((location / NAME).read_text())["sources"]}
    except (OSError, ValueError, KeyError, TypeError):
        found = {}
    if head is not None:
        found = {name: each for name, each in found.items() if each.at is None or each.incarnation == head.incarnation}
    return Lag(tuple(found.get(name, SourceLag(name)) for name in sources))


def _source_lag(of: Mapping[str, Any]) -> SourceLag:
    splits = tuple(SplitLag(of["at"], of["source"], split, end, position) for split, end, position in of["splits"])
    incarnation = of.get("incarnation", "")
    return SourceLag(of["source"], of["at"], splits, of["withheld"], of["failure"], of["every_s"], incarnation)
