"""Requests for a checkpoint: it begins at once, and the request is answered when all sinks have committed it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from connectors.api.contracts import Source
from eos.errors import SourceError
from spark_jobs.observe.report import CheckpointReport, Listener
from twophase.head_value import HeadValue
from twophase.positions import Position, Positions, is_before, least
from twophase.requests import Answer, Request


@dataclass(slots=True)
class _Demand:
    request: Request
    wanted: Mapping[str, Positions] | None = None  # ends of the sources at the request; None: not yet known
    decided: int | None = None  # this checkpoint and those before it contain all records up to `wanted`
    reports: list[CheckpointReport] = field(default_factory=list)  # of the checkpoints that have ended since

    def answer(self, head: HeadValue) -> Answer | None:
        """Return the answer, or None while the request has to wait.

        The first checkpoint that ends after the request may have been planned before it, so it counts only if it
        contains all records up to `wanted`. The second one was planned afterwards.
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
    """The requests for a checkpoint to one run, over all its queries.

    Used in three threads: the request loop, Spark's batch thread (as a Listener), and the thread that waits for the
    query.
    """

    sources: Sequence[Source]
    reply: Callable[[Request, Answer], None]  # never blocks
    _head: Callable[[], HeadValue] | None = None
    _begin: Callable[[], None] = lambda: None
    _demands: list[_Demand] = field(default_factory=list)

    def follow(self, head: Callable[[], HeadValue] | None, begin: Callable[[], None] = lambda: None) -> None:
        """Attach a query that has started: `head` returns its head, `begin` starts a checkpoint. None: detach."""
        self._head, self._begin = head, begin
        if self._demands:
            begin()

    def ask(self, request: Request) -> Answer | None:
        """Handle a request: query the ends of the sources, which blocks, and begin a checkpoint. `look` answers.

        Raises SourceError if a source does not answer.
        """
        head_of = self._head  # another thread resets it when the query ends
        if head_of is None:
            return Answer(ok=False, message="no query is running at this moment: ask again")
        demand = _Demand(request)
        self._demands.append(demand)  # from now on it gets the report of each checkpoint
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
        """Answer the requests that can be answered. Called at intervals while a query runs; never blocks."""
        for demand in list(self._demands):
            answer = demand.answer(self._head()) if self._head is not None else None
            if answer is not None:
                self.reply(demand.request, answer)
            if answer is not None or demand.request.expires_at < time.time():
                self._demands.remove(demand)

    def give_up(self, why: str) -> None:
        """Answer all open requests with a failure: the run has ended."""
        for demand in list(self._demands):
            self.reply(demand.request, Answer(ok=False, message=f"{why} before the checkpoint was committed"))
        self._demands.clear()

    def on_checkpoint(self, report: CheckpointReport) -> None:
        """Keep the report for open requests, and begin the next checkpoint: this one may be planned too early."""
        for demand in list(self._demands):
            demand.reports.append(report)
            self._begin()


def _ends(source: Source, head: HeadValue) -> Positions:
    """Return the positions up to which the source can be read now."""
    known = head.known(source.name)
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
