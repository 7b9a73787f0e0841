"""Whether what a job has acknowledged is whole: of this run, these sinks, every task and the same schemas (R6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eos.errors import ConnectorError, IdentityError, PrepareError
from twophase.ids import Scope, sink_key
from twophase.values import Committable, MetSchemas, Schemas


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


def other_schema(checkpoint_id: int, known: Schemas, met: MetSchemas) -> ConnectorError | None:
    """Return the error if a name of a schema has got another schema; None if each has the same as before (H35).

    `known`: the schemas of head. Records have only the name, so a checkpoint that is read once more gives the same
    rows only if a name always means the same schema.
    """
    for source, schemas in met.items():
        first = dict(known.get(source, {}))
        for name, fingerprint in sorted(schemas):
            if first.setdefault(name, fingerprint) != fingerprint:
                message = (
                    f"checkpoint {checkpoint_id}: source {source}: {name} is now another schema (fingerprint "
                    f"{fingerprint}) than when records were first decoded with it ({first[name]})"
                )
                remedy = (
                    "the schema registry went back in time, or was replaced: restore its newest state. If its ids have "
                    "new meanings for good, `eos reset` reads on without the old ones"
                )
                return IdentityError(message, remedy=remedy)
    return None
