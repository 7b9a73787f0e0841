"""R7: make a completed checkpoint visible everywhere. Every committable ends in one of four outcomes, none assumed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from eos.errors import ConnectorError, FencedError, LostCommittableError
from twophase import messages
from twophase.messages import Steps
from twophase.ownership import Ownership, check_owned, fenced_error
from twophase.set_back import newest_counted
from twophase.values import CheckpointRecord, CommitOutcome, Committable


def commit_everywhere(owned: Ownership, record: CheckpointRecord, *, own: bool = False) -> Steps[None]:
    """Commit in every sink, again and again where the answer is "retry later". The driver bounds the waiting.

    `own`: see messages.Commit.

    Raises LostCommittableError when the sink can never show a committable, FencedError when that is because somebody
    newer has gone on without us.
    """
    lost = yield from commit_what_can_be(owned, record.checkpoint_id, record.committables, own=own)
    if lost:
        raise _lost_error(record, lost)


def commit_and_count(owned: Ownership, record: CheckpointRecord, *, own: bool = False) -> Steps[None]:
    """Commit as `commit_everywhere` does; then every sink of it counts the checkpoint, and all before it (H26)."""
    yield from commit_everywhere(owned, record, own=own)
    yield from count(owned, record.checkpoint_id, record.committables)


def count(owned: Ownership, checkpoint_id: int, committables: Mapping[str, tuple[Committable, ...]]) -> Steps[None]:
    """Count a checkpoint in the sinks named. Raises SetBackError where one went back in time.

    A successor that has pruned the witnesses leaves the same picture, so head is read again before that is said (H12):
    FencedError.
    """
    known = _known(owned, checkpoint_id, committables)
    error = yield from messages.Count(owned.head.incarnation, checkpoint_id, committables, known)
    if error is not None:
        yield from check_owned(owned)
        raise error
    owned.note_counted(dict.fromkeys(committables, checkpoint_id))


def _known(owned: Ownership, checkpoint_id: int, sinks: Iterable[str]) -> dict[str, int]:
    """Return by sink what it has counted, where nothing but at-least-once checkpoints lies between that and this (H34).

    Of another sink nothing is known but that it has to be at the checkpoint before. An exactly-once checkpoint that
    lies between is lost there, and must not be passed over: a repair would find it applied.
    """
    least = newest_counted(owned.head, checkpoint_id - 1)
    return {name: at for name in sinks if least <= (at := owned.counted.get(name, checkpoint_id)) < checkpoint_id - 1}


def commit_what_can_be(
    owned: Ownership,
    checkpoint_id: int,
    committables: Mapping[str, tuple[Committable, ...]],
    refusals: dict[str, ConnectorError] | None = None,
    *,
    own: bool = False,
) -> Steps[Mapping[str, tuple[Committable, ...]]]:
    """Commit as `commit_everywhere` does, and tell by sink what is lost. Raises FencedError.

    `refusals`: where it is given, sinks that cannot commit at all are lost as well, and it tells why.
    """
    waiting = committables
    lost: dict[str, tuple[Committable, ...]] = {}
    repeated = 0
    while True:
        answers: Mapping[str, Sequence[CommitOutcome] | ConnectorError]
        answers = yield from messages.Commit(
            owned.head.incarnation,
            checkpoint_id,
            waiting,
            repeated,
            tell_refusals=refusals is not None,
            own=own,
            known=_known(owned, checkpoint_id, waiting),
        )
        outcomes: dict[str, Sequence[CommitOutcome]] = {}
        for sink, answer in answers.items():
            if isinstance(answer, ConnectorError):
                assert refusals is not None
                refusals[sink] = answer
                answer = [CommitOutcome.LOST] * len(waiting[sink])
            outcomes[sink] = answer
        for sink, group in _with(waiting, outcomes, CommitOutcome.LOST).items():
            lost[sink] = (*lost.get(sink, ()), *group)
        waiting = _with(waiting, outcomes, CommitOutcome.RETRY_LATER)
        if not waiting:
            break
        repeated += 1
    return (yield from _confirmed(owned, lost))  # last: who gives the lost ones up must not give up the late ones


def commit_and_count_what_can_be(
    owned: Ownership,
    checkpoint_id: int,
    committables: Mapping[str, tuple[Committable, ...]],
    counts: dict[str, int],
    refusals: dict[str, ConnectorError] | None = None,
) -> Steps[Mapping[str, tuple[Committable, ...]]]:
    """Commit as `commit_what_can_be` does, and count it where nothing of it or of a checkpoint before it is lost (H26).

    `counts`: by sink, what it counts; moved along.
    """
    lost = yield from commit_what_can_be(owned, checkpoint_id, committables, refusals)
    whole = {n: group for n, group in committables.items() if n not in lost and counts.get(n) == checkpoint_id - 1}
    if whole:
        yield from count(owned, checkpoint_id, whole)
        counts |= dict.fromkeys(whole, checkpoint_id)
    return lost


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


def _confirmed(
    owned: Ownership, lost: Mapping[str, tuple[Committable, ...]]
) -> Steps[Mapping[str, tuple[Committable, ...]]]:
    """A pruned witness looks like a lost committable (H12), so head is read again before that is said."""
    if not lost:
        return lost
    seen = yield from messages.ReadHead()
    if seen is None or seen.head.epoch != owned.head.epoch:
        raise fenced_error(owned.head, seen.head) if seen else FencedError("fenced: head has vanished")
    return lost


def _lost_error(record: CheckpointRecord, lost: Mapping[str, tuple[Committable, ...]]) -> LostCommittableError:
    where = " and ".join(
        f"sink {sink} neither holds nor shows {len(group)} of its transactions ({group[0].transaction}, "
        f"{group[0].rows} rows)"
        for sink, group in lost.items()
    )
    ranges = ", ".join(f"{r.split}[{r.start}, {r.end})" for each in record.ranges.values() for r in each)
    message = f"lost: checkpoint {record.checkpoint_id} is completed, but {where}. Its records are {ranges}"
    return LostCommittableError(
        message,
        remedy="a prepared transaction was ended by hand, or a file of the log was removed: restore that file; or "
        "rewrite its rows from those offsets with `eos repair SPEC`; `eos reset --abandon-lost` gives them up",
    )
