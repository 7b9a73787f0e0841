"""R7: make a completed checkpoint visible everywhere. Every committable ends in one of four outcomes, none assumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twophase import messages
from twophase.errors import FencedError, LostCommittableError
from twophase.messages import Seen, Steps
from twophase.ownership import Ownership, fenced
from twophase.values import CheckpointRecord, CommitOutcome, Committable


def commit_everywhere(owned: Ownership, record: CheckpointRecord) -> Steps[None]:
    """Commit in every sink, again and again where the answer is "retry later". The driver bounds the waiting.

    Raises LostCommittableError when the sink can never show a committable, FencedError when that is because somebody
    newer has gone on without us.
    """
    waiting: Mapping[str, tuple[Committable, ...]] = record.committables
    lost: dict[str, tuple[Committable, ...]] = {}
    repeated = 0
    while True:
        outcomes: Mapping[str, Sequence[CommitOutcome]] = yield messages.Commit(record.checkpoint_id, waiting, repeated)
        for sink, group in _with(waiting, outcomes, CommitOutcome.LOST).items():
            lost[sink] = (*lost.get(sink, ()), *group)
        waiting = _with(waiting, outcomes, CommitOutcome.RETRY_LATER)
        if not waiting:
            break
        repeated += 1
    if lost:  # said last: whoever gives the lost ones up must not give up those that were only late
        yield from _explain_lost(owned, record, lost)


def _with(
    asked: Mapping[str, tuple[Committable, ...]],
    outcomes: Mapping[str, Sequence[CommitOutcome]],
    wanted: CommitOutcome,
) -> dict[str, tuple[Committable, ...]]:
    chosen = {
        sink: tuple(c for c, outcome in zip(group, outcomes[sink], strict=True) if outcome is wanted)
        for sink, group in asked.items()
    }
    return {sink: group for sink, group in chosen.items() if group}


def _explain_lost(
    owned: Ownership, record: CheckpointRecord, lost: Mapping[str, tuple[Committable, ...]]
) -> Steps[None]:
    """A pruned witness looks like a lost committable (H12), so head is read again before that is said."""
    seen: Seen | None = yield messages.ReadHead()
    if seen is None or seen.head.epoch != owned.head.epoch:
        raise fenced(owned.head, seen.head) if seen else FencedError("fenced: head has vanished")
    sink, group = next(iter(lost.items()))
    ranges = ", ".join(f"{r.split}[{r.start}, {r.end})" for each in record.ranges.values() for r in each)
    message = (
        f"lost: checkpoint {record.checkpoint_id} is completed, but sink {sink} neither holds nor shows "
        f"{len(group)} of its transactions ({group[0].transaction}, {group[0].rows} rows). Its records are {ranges}"
    )
    raise LostCommittableError(
        message,
        remedy="somebody ended a prepared transaction by hand: its rows must be written again from those offsets, and "
        "`eos reset --abandon-lost` goes on without them",
    )
