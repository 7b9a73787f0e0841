"""What sinks hold prepared, and which of it a command may end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

from connectors.registry import build_committer, build_sink
from connectors.spec import Spec
from eos.errors import IdentityError, SpecError
from spark_jobs.observe.head_reader import read_history
from twophase.head_value import HeadValue
from twophase.in_doubt import InDoubtTransaction, Resolution, in_doubt_transaction
from twophase.participants import Committer
from twophase.status import Status
from twophase.values import Committable

_AGAINST: Final = {
    Resolution.COMMIT: "its checkpoint is decided: its rows would be lost, and the next start would report it and stop",
    Resolution.ROLL_BACK: "it belongs to no checkpoint: its rows would be in the sink twice",
    Resolution.OPEN: "a driver may be about to decide it; "
    "`eos transactions settle` fences the driver and then resolves it",
    Resolution.FOREIGN: "this transaction belongs to another incarnation; only that pipeline's head knows "
    "whether it was committed",
}


NOBODY: Final = HeadValue(pipeline="", incarnation="", epoch=0, nonces=())
"""The head of a pipeline that never ran, or whose head is lost: nothing is of its life."""


class Held(NamedTuple):
    """What sinks hold, and what judges it."""

    found: list[InDoubtTransaction]
    committers: dict[str, Committer]
    history: Status | None  # None: the pipeline never ran, or its head is lost


def in_order(held: Held, chosen: Sequence[InDoubtTransaction]) -> Iterator[tuple[str, int, Sequence[Committable]]]:
    """What each sink is asked to commit, checkpoint by checkpoint.

    A log goes from each checkpoint to the next one, so that those are among them which have no rows there.
    """
    for sink in sorted({each.sink for each in chosen}):
        of_sink = [each for each in chosen if each.sink == sink]
        numbers = {each.checkpoint_id for each in of_sink}
        wanted = {n: _together([each for each in of_sink if each.checkpoint_id == n]) for n in numbers}
        if held.committers[sink].permits_once and held.history is not None:
            waiting = {each.checkpoint_id for each in held.found if each.sink == sink}
            for record in held.history.checkpoints:
                number = record.checkpoint_id
                if not held.history.is_committed(record) and number < max(numbers) and number not in waiting:
                    wanted[number] = record.committables.get(sink, ())
        yield from ((sink, number, wanted[number]) for number in sorted(wanted))


def _together(group: Sequence[InDoubtTransaction]) -> Sequence[Committable]:
    """What one sink is asked to commit at once: all that was decided for it, since some take a checkpoint whole."""
    decided = next((each.decided for each in group if each.decided), ())
    return decided or [each.committable or Committable(each.transaction, rows=0) for each in group]


@contextmanager
def in_doubt(spec: Spec) -> Iterator[Held]:
    """What there is, sink by sink.

    Without a head it may be lost: then sinks tell whose they are, and all that is prepared is of another life.
    """
    before = read_history(spec)
    with ExitStack() as stack:
        committers: dict[str, Committer] = {}
        listed = []
        for entry in spec.outputs:
            if before is not None and entry.name not in before.head.sinks:
                continue
            committer = committers[entry.name] = build_committer(build_sink(spec, entry), spec.pipeline)
            stack.callback(committer.close)
            life = before.head.incarnation if before is not None else NOBODY.incarnation
            # It then knows whose transactions it is asked about.
            claimed = committer.inspect(life, ()).claim_incarnation
            if before is None and claimed is not None:
                committer.inspect(life := claimed, ())
            listed += [(entry.name, each) for each in committer.prepared(life)]
        history = read_history(spec)  # again: what was decided since counts
        records = {record.checkpoint_id: record for record in history.checkpoints} if history is not None else {}
        head = history.head if history is not None else NOBODY
        yield Held([in_doubt_transaction(head, records, sink, each) for sink, each in listed], committers, history)


def chosen_of(
    found: Sequence[InDoubtTransaction], ids: Sequence[str] | None, right: Resolution, *, force: bool
) -> list[InDoubtTransaction]:
    """Those to end. Without ids all that are right; with them exactly those, or an error that says why not."""
    if not ids:
        if force:
            raise SpecError("--force needs ids", remedy="`eos transactions list` shows the ids")
        return [each for each in found if each.resolution is right]
    known = {each.id: each for each in found}
    unknown = [name for name in ids if name not in known]
    if unknown:
        message = f"no sink holds {', '.join(unknown)} prepared"
        raise SpecError(message, remedy="`eos transactions list` shows the prepared transactions")
    chosen = [known[name] for name in ids]
    for each in chosen:
        if each.prepared.transaction is None:
            message = f"refused: {each.id} at sink {each.sink}: it belongs to another program"
            raise IdentityError(message, remedy="resolve it with that program")
        if each.resolution is not right and not force:
            message = f"refused: {each.id} at sink {each.sink}: {_AGAINST[each.resolution]}"
            lost = "if that head is lost, " if each.resolution is Resolution.FOREIGN else ""
            raise IdentityError(message, remedy=f"{lost}`--force` overrides this")
    return chosen
