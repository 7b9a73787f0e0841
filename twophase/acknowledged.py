"""Whether what a job has acknowledged is whole: of this run, of these sinks, and of every task (R6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eos.errors import ConnectorError, PrepareError
from twophase.ids import Scope, sink_key
from twophase.values import Committable


def mistake(
    scope: Scope, sinks: Sequence[str], committables: Mapping[str, tuple[Committable, ...]]
) -> ConnectorError | None:
    """What is wrong with the acknowledgements of a run; None if nothing is.

    A task writes to one sink or to several, and each task once: sinks have all their tasks in common, or none, and all
    tasks together have the numbers from 0 on.
    """
    number = scope.checkpoint_id
    if sorted(committables) != sorted(sinks):
        return PrepareError(f"checkpoint {number}: acknowledged by {sorted(committables)}, not {sorted(sinks)}")
    tasks: dict[str, set[int]] = {}
    for sink, group in committables.items():
        key, transactions = sink_key(sink), [each.transaction for each in group]
        if any(t.scope != scope or t.sink != key for t in transactions):
            return PrepareError(f"checkpoint {number}: sink {sink} acknowledged another run's transaction")
        tasks[sink] = {t.task for t in transactions}
        if len(tasks[sink]) < len(transactions):
            return PrepareError(f"checkpoint {number}: sink {sink} has not one acknowledgement of each task")
    everybody: dict[int, str] = {}  # each task, with one of its sinks
    for sink, numbers in tasks.items():
        for other in {everybody[task] for task in numbers if task in everybody}:
            if tasks[other] != numbers:
                return PrepareError(f"checkpoint {number}: sinks {other} and {sink} share tasks, and not all of them")
        everybody.update((task, sink) for task in numbers)
    if len(everybody) <= max(everybody, default=-1):
        found = f"{len(everybody)} of {max(everybody) + 1} or more"
        return PrepareError(f"checkpoint {number}: there is not one acknowledgement of each task, but {found}")
    return None
