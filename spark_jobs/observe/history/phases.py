"""Where the time of a checkpoint went, from what the driver and its tasks have measured. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs.observe.history.model import Acknowledgement, Phases

DECIDING: Final = ("AwaitState", "PutRecord", "Swap decide", "Swap note")
"""The driver's actions from the last acknowledgement to the decision (`Driver.durations_s`)."""


@dataclass(frozen=True, slots=True)
class _Task:
    """One task, with all its sinks."""

    end: float  # seconds since 1970, by the clock of its machine
    read_s: float
    write_s: float
    prepare_s: float

    @property
    def busy_s(self) -> float:
        return self.read_s + self.write_s + self.prepare_s


def phases(
    started_at: float,
    decided_at: float,
    committed_at: float | None,
    durations_s: Mapping[str, float],
    acknowledgements: Sequence[Acknowledgement],
) -> Phases:
    """Without Spark's plan, which is known later.

    Args:
        started_at: Spark has handed the batch over.
        decided_at: every task has acknowledged.
        committed_at: everywhere; None where sinks commit by themselves, so that their part is not known here.
        durations_s: of the driver's actions, see Driver.durations_s.
        acknowledgements: of the try that was decided.

    Tasks work side by side: what each of them measured is scaled to the time in which any of them was at work. What
    remains until the decision is Spark's: it starts the job and its tasks, and gathers results.
    """
    job_s, tasks = decided_at - started_at, _tasks(acknowledgements)
    work_s = min(_covered_s((each.end - each.busy_s, each.end) for each in tasks), job_s)
    busy_s = sum(each.busy_s for each in tasks)
    scale = work_s / busy_s if busy_s > 0 else 0.0
    decide_s = sum(durations_s.get(name, 0.0) for name in DECIDING)
    return Phases(
        start_s=job_s - work_s,
        read_s=scale * sum(each.read_s for each in tasks),
        write_s=scale * sum(each.write_s for each in tasks),
        prepare_s=scale * sum(each.prepare_s for each in tasks),
        decide_s=decide_s,
        wait_s=0.0 if committed_at is not None else None,
        commit_s=max(committed_at - decided_at - decide_s, 0.0) if committed_at is not None else None,
    )


def _tasks(acknowledgements: Sequence[Acknowledgement]) -> list[_Task]:
    groups: dict[tuple[int, int], list[Acknowledgement]] = {}
    for each in acknowledgements:
        groups.setdefault((each.task, each.attempt), []).append(each)
    return [
        _Task(
            end=max(each.acknowledged_at or 0.0 for each in group),
            read_s=max(each.read_s or 0.0 for each in group),
            write_s=sum(each.write_s or 0.0 for each in group),
            prepare_s=sum(each.prepare_s or 0.0 for each in group),
        )
        for group in groups.values()
    ]


def _covered_s(stretches: Iterable[tuple[float, float]]) -> float:
    """How long at least one of these was."""
    covered_s, until = 0.0, float("-inf")
    for begin, end in sorted(stretches):
        covered_s += max(end - max(begin, until), 0.0)
        until = max(until, end)
    return covered_s
