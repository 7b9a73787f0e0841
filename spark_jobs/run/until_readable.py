"""The wait of a run until caught up for records that existed at its start and cannot be read yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from connectors.api.contracts import Horizon, Source
from spark_jobs.observe.report import Listener
from spark_jobs.observe.withheld import Poll, Withheld
from spark_jobs.run.control import pause
from twophase.head_value import HeadValue
from twophase.positions import Position, Positions, is_before, least

_LOOK_S: Final = (0.5, 5.0)
_LOOK_SHARE: Final = 0.1
"""A look follows after this part of the time waited so far, within these bounds."""
_TELL_S: Final = 30.0


@dataclass(slots=True)
class UntilReadable:
    """Of one run, over all its queries. A query ends when nothing can be read; then this decides if another follows."""

    sources: Sequence[Source]
    withheld: Withheld
    listener: Listener
    is_stopping: Callable[[], bool]
    wanted: Mapping[str, Positions] | None = None
    """Ends of the records that were withheld when the run began, by source. None: the run has not begun.

    Records that are written later are not waited for: the wait ends though producers go on.
    """

    def begin(self, head: HeadValue) -> None:
        """Note the withheld records of now, before the first query; later calls do nothing. Raises SourceError."""
        if self.wanted is None:
            self.wanted = {source.name: self._ask(source, head).withheld for source in self.sources}

    def wait(self, head: HeadValue) -> bool:
        """Block until a query can read more of the records that were there at the start.

        False: the pipeline has read past all of them, or the run is being stopped. Raises SourceError.

        An offset that holds no record, such as the marker of an abort, is read past like any other: the source's ends
        move over it.
        """
        began_s = time.monotonic()
        told_s: float | None = None
        while missing := self._missing(head):
            if any(self._is_readable(source, head, missing[source.name]) for source in self.sources):
                return True
            now_s = time.monotonic()
            if told_s is None or now_s - told_s > _TELL_S:
                self._tell(missing, is_first=told_s is None)
                told_s = now_s
            least, most = _LOOK_S
            if not pause(min(max((now_s - began_s) * _LOOK_SHARE, least), most), self.is_stopping):
                return False
        return False

    def _missing(self, head: HeadValue) -> Mapping[str, Positions]:
        """Of each source the splits that are not read up to the wanted end; empty if there are none."""
        missing = {
            name: {split: end for split, end in ends.items() if is_before(_position(head, name, split, end), end)}
            for name, ends in (self.wanted or {}).items()
        }
        return missing if any(missing.values()) else {}

    def _is_readable(self, source: Source, head: HeadValue, missing: Positions) -> bool:
        if not missing:
            return False
        horizon = self._ask(source, head)
        begins = {**horizon.discovered.positions, **head.known(source.name).positions}
        found = {split: horizon.ends[split] for split in missing if split in horizon.ends}
        return any(is_before(begins.get(split, least(end)), end) for split, end in found.items())

    def _ask(self, source: Source, head: HeadValue) -> Horizon:
        known = head.known(source.name)
        horizon = source.horizon(known)
        poll = Poll.of(source, horizon, known.positions)
        if self.withheld.observe([poll]):
            self.listener.on_polls([poll])
            self.listener.on_withheld(self.withheld.splits)
        return horizon

    def _tell(self, missing: Mapping[str, Positions], *, is_first: bool) -> None:
        own = [each for each in self.withheld.splits if each.split in missing.get(each.source, {})]
        if own and is_first:
            self.listener.on_state(f"waiting for {own[0].reason}")
        self.withheld.warn(own, time.time())


def _position(head: HeadValue, source: str, split: str, end: Position) -> Position:
    found = head.position(source, split)
    return found if found is not None else least(end)
