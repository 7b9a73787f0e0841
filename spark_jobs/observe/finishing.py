"""Puts together what is told of a checkpoint piece by piece, until it is committed everywhere. Pure.

A sink that is behind commits long after its checkpoint was reported; then both are known, and it is finished.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from spark_jobs.observe.history.model import Phases, acknowledgements_of
from spark_jobs.observe.history.phases import phases
from spark_jobs.observe.report import CheckpointReport
from twophase.values import CheckpointRecord


@dataclass(frozen=True, slots=True)
class Finished:
    """A checkpoint that every sink shows. Spark's plan, which is told apart, is not in its phases."""

    record: CheckpointRecord
    phases: Phases
    committed_at: float  # seconds since 1970


@dataclass(slots=True)
class _Open:
    record: CheckpointRecord
    phases: Phases | None = None
    commit_s: float = 0.0  # of the slowest sink so far
    committed_at: float | None = None

    def finished(self) -> Finished | None:
        """None while something is not known."""
        if self.phases is None or self.committed_at is None:
            return None
        left_s = self.committed_at - self.record.decided_at - (self.phases.decide_s or 0.0) - self.commit_s
        known = replace(self.phases, wait_s=max(left_s, 0.0), commit_s=self.commit_s)
        return Finished(self.record, known, self.committed_at)


@dataclass(slots=True)
class Finishing:
    """Of one run. One thread at a time."""

    _open: dict[int, _Open] = field(default_factory=dict)

    def decided(self, record: CheckpointRecord) -> None:
        """It has begun to be of interest: of one that an earlier run decided not everything will be known."""
        self._open[record.checkpoint_id] = _Open(record)

    def committed_in_sink(self, checkpoint_id: int, commit_s: float) -> None:
        """One sink shows it."""
        if (found := self._open.get(checkpoint_id)) is not None:
            found.commit_s = max(found.commit_s, commit_s)

    def committed(self, up_to: int, at: float) -> list[Finished]:
        """Every sink shows these."""
        for number, found in self._open.items():
            if number <= up_to and found.committed_at is None:
                found.committed_at = at
        return self._finished()

    def measured(self, report: CheckpointReport) -> list[Finished]:
        """Where its tasks' time went."""
        record = report.record
        found = self._open.get(record.checkpoint_id)
        if found is not None and not report.replayed:
            tasks = report.acknowledgements or acknowledgements_of(record)
            found.phases = phases(record.started_at, record.decided_at, None, report.durations_s, tasks)
        return self._finished()

    def _finished(self) -> list[Finished]:
        done = [found for each in sorted(self._open) if (found := self._open[each].finished()) is not None]
        for each in done:
            del self._open[each.record.checkpoint_id]
        return done
