"""Checkpoints that somebody has asked for: begun at once, and told of when they are committed everywhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from connectors.api.contracts import Source
from eos.errors import SourceError
from spark_jobs.observe.report import CheckpointReport, Listener
from spark_jobs.run.starting_points import known_of
from twophase.head_value import HeadValue
from twophase.positions import Position, Positions, is_before, least
from twophase.requests import Answer, Request


@dataclass(slots=True)
class _Demand:
    request: Request
    wanted: Mapping[str, Positions] | None = None  # what there was to read when it was asked; None: not yet known
    decided: int | None = None  # all of that is in this checkpoint and those before it
    reports: list[CheckpointReport] = field(default_factory=list)  # of the checkpoints that have ended since

    def answer(self, head: HeadValue) -> Answer | None:
        """None: not yet.

        The first checkpoint that ends after the request may have been planned before it, so that it counts only if all
        that was there is in it; the second one was planned afterwards.
        """
        if self.decided is not None:
            return _nothing(head) if head.committed >= self.decided else None
        if self.wanted is None or not self.reports:
            return None
        report = self.reports[-1] if _has(head, self.wanted) else self.reports[1] if len(self.reports) > 1 else None
        if report is None or head.committed < report.record.checkpoint_id:
            return None
        number = report.record.checkpoint_id
        facts = {"checkpoint_id": number, "records": report.records, "rows": report.record.rows}
        return Answer(ok=True, message=f"checkpoint {number} is committed", facts=facts)


@dataclass(slots=True)
class CheckpointRequests(Listener):
    """What was asked of one run, over all its queries. Used by the thread that hears requests, by Spark's, which ends
    checkpoints (a Listener), and by the one that waits for the query."""

    sources: Sequence[Source]
    reply: Callable[[Request, Answer], None]  # never blocks
    _head: Callable[[], HeadValue] | None = None
    _begin: Callable[[], None] = lambda: None
    _demands: list[_Demand] = field(default_factory=list)

    def follow(self, head: Callable[[], HeadValue] | None, begin: Callable[[], None] = lambda: None) -> None:
        """A query has begun: its head, and how to begin a checkpoint of it. None: it has ended."""
        self._head, self._begin = head, begin
        if self._demands:
            begin()

    def ask(self, request: Request) -> Answer | None:
        """A handler of requests: asks the sources what there is to read, and blocks for that; `look` answers.

        Raises SourceError if a source does not answer.
        """
        head_of = self._head  # another thread says when the query has ended
        if head_of is None:
            return Answer(ok=False, message="no query is running at this moment: ask again")
        demand = _Demand(request)
        self._demands.append(demand)  # what ends from now on, it hears of
        head = head_of()
        try:
            wanted = {source.name: _ends(source, head) for source in self.sources}
        except SourceError:
            with suppress(ValueError):  # out of date meanwhile, or the run has ended
                self._demands.remove(demand)
            raise
        if _has(head, wanted):
            demand.decided = head.completed
        else:
            self._begin()
        demand.wanted = wanted
        return None

    def look(self) -> None:
        """Answer what can be answered. Called again and again while a query runs; never blocks."""
        for demand in list(self._demands):
            answer = demand.answer(self._head()) if self._head is not None else None
            if answer is not None:
                self.reply(demand.request, answer)
            if answer is not None or demand.request.expires_at < time.time():
                self._demands.remove(demand)

    def give_up(self, why: str) -> None:
        """The run has ended."""
        for demand in list(self._demands):
            self.reply(demand.request, Answer(ok=False, message=f"{why} before the checkpoint was committed"))
        self._demands.clear()

    def on_checkpoint(self, report: CheckpointReport) -> None:
        """See Listener. What was planned too early does not count: the next one begins at once, too."""
        for demand in list(self._demands):
            demand.reports.append(report)
            self._begin()


def _ends(source: Source, head: HeadValue) -> Positions:
    """How far the source can be read now."""
    known = known_of(head, source.name)
    horizon = source.horizon(known)
    firsts = {**horizon.discovered.positions, **known.positions}
    return {split: end for split, end in horizon.ends.items() if is_before(firsts.get(split, least(end)), end)}


def _has(head: HeadValue, wanted: Mapping[str, Positions]) -> bool:
    return not any(
        is_before(_position(head, name, split, end), end)
        for name, ends in wanted.items()
        for split, end in ends.items()
    )


def _position(head: HeadValue, source: str, split: str, end: Position) -> Position:
    found = head.position(source, split)
    return found if found is not None else least(end)


def _nothing(head: HeadValue) -> Answer:
    facts = {"checkpoint_id": None, "records": 0, "rows": 0, "committed": head.committed}
    return Answer(ok=True, message="there is nothing to read that is not committed", facts=facts)
