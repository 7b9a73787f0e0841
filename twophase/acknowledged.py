"""Whether what a job has acknowledged is whole: of this run, of these sinks, and of every task (R6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from twophase.errors import ConnectorError, PrepareError
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
        transactions = [each.transaction for each in group]
        if any(t.scope != scope or t.sink != sink_key(sink) for t in transactions):
            return PrepareError(f"checkpoint {number}: sink {sink} acknowledged another run's transaction")
        tasks[sink] = {t.task for t in transactions}
        if len(tasks[sink]) < len(transactions):
            return PrepareError(f"checkpoint {number}: sink {sink} has not one acknowledgement of each task")
    for one, other in combinations(tasks, 2):
        if tasks[one] != tasks[other] and tasks[one] & tasks[other]:
            return PrepareError(f"checkpoint {number}: sinks {one} and {other} share tasks, and not all of them")
    everybody = set().union(*tasks.values())
    if everybody != set(range(len(everybody))):
        found = f"{len(everybody)} of {max(everybody) + 1} or more"
        return PrepareError(f"checkpoint {number}: there is not one acknowledgement of each task, but {found}")
    return None
