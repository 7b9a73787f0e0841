"""The driver's half of a sink with a log, whatever applies it: twophase.participants.Committer, method by method."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import pyarrow as pa

from connectors.log.ledger import Entries, Ledger, Share
from connectors.log.segment_index import SegmentIndex
from connectors.log.segments import by_slot, committable, segment_of, slots_of, while_committing
from connectors.owner import Owner, check_counted, check_older, incarnation_of
from eos.errors import IdentityError
from twophase import faults
from twophase.gather import at_once
from twophase.ids import Scope, TransactionId, sink_key
from twophase.participants import Prepared
from twophase.values import CommitOutcome, Committable, SinkState
from wal.errors import SegmentDamagedError, SegmentError, SegmentMissingError, WalError
from wal.segment import stat_segment, verify_segment
from wal.storage import Storage


class LogCommitter:
    """See Committer. `inspect` or `claim` comes first: they tell whose checkpoints are committed.

    Permits are not needed: what an older epoch may still seal has a name that no decision mentions.
    """

    permits_once: Final = True

    def __init__(self, name: str, ledger: Ledger, storage: Storage) -> None:
        self.name = name
        self._ledger = ledger
        self._storage = storage
        self._incarnation: str | None = None
        self._epoch: int | None = None  # None: not claimed yet
        self._found: int | None = None  # slots that the sink had when it was claimed

    @property
    def slots(self) -> frozenset[int]:
        return frozenset({self._ledger.slots} if self._found is None else {self._ledger.slots, self._found})

    def inspect(self, incarnation: str, expected: Sequence[Committable]) -> SinkState:
        self._incarnation = incarnation
        self._ledger.prepare()
        entries = self._ledger.entries(incarnation, expected)
        asked = [each.transaction for each in expected]
        return SinkState(
            claim_incarnation=entries.owner.incarnation if entries.owner else None,
            claim_epoch=entries.owner.epoch if entries.owner else 0,
            highest_witness=max(entries.slots.values(), default=-1),
            missing=tuple(each for each in asked if each not in entries.seen),
            counted=entries.applied if entries.slots else None,
        )

    def claim(
        self, incarnation: str, epoch: int, *, take_over: bool = False, begins: int = -1, counted: int = -1
    ) -> None:
        """See Committer. Sweeps away what older epochs have begun to write, so that they can seal nothing of it, and
        what a crash has left of checkpoints that are applied."""
        self._ledger.prepare()
        self._ledger.claim(Owner(incarnation, epoch), take_over=take_over, begins=begins, counted=counted)
        self._incarnation, self._epoch = incarnation, epoch
        entries = self._ledger.entries(incarnation, ())
        applied, self._found = entries.applied, len(entries.slots)
        check_counted(self.name, applied, counted)
        with _of_the_log():
            log = self._log(incarnation, everywhere=True)
            log.sweep(epoch)
            log.collect(applied)

    def permit(self, scope: Scope, *, counted: int = -1) -> None:
        """See Committer. Everything before this checkpoint is applied, since it is the first one of a start: the time
        for another number of slots."""
        if counted >= 0:
            check_counted(self.name, self._ledger.entries(scope.incarnation, ()).applied, counted)
        self._ledger.share_out(scope)
        self._prepare(scope)

    def permit_log(self, scope: Scope) -> None:
        """See Committer. The sink keeps its slots: a start without it writes for as many slots (H32)."""
        self._prepare(scope)

    def commit(
        self, checkpoint_id: int, committables: Sequence[Committable], *, own: bool = False, known: int | None = None
    ) -> Sequence[CommitOutcome]:
        """See Committer. All of a slot's share or nothing of it; the slots at once, each in a thread.

        Raises LostCommittableError for a damaged segment, BadRowError for a row that the target refuses, IdentityError
        if a checkpoint before this one is not applied, FencedError, SinkUnavailableError.
        """
        incarnation = incarnation_of(self.name, self._incarnation, checkpoint_id, committables)
        slots = slots_of(committables) or self._slots_in_use(incarnation)
        calls = {
            f"{self.name}, slot {slot}": partial(
                self._apply, Share(incarnation, self._epoch, checkpoint_id, slot, of_slot, own, known)
            )
            for slot, of_slot in enumerate(by_slot(committables, slots))
        }
        outcomes: dict[TransactionId, CommitOutcome] = {}
        for answer in at_once(calls).values():
            outcomes.update(answer)
        if CommitOutcome.LOST not in outcomes.values():
            with _of_the_log():
                self._log(incarnation).collect(checkpoint_id)
        return [outcomes[each.transaction] for each in committables]

    def count(
        self, incarnation: str, checkpoint_id: int, committables: Sequence[Committable], *, known: int | None = None
    ) -> None:
        """See Committer. A slot counts in the transaction of its rows."""

    def missing_committables(self, checkpoint_id: int, committables: Sequence[Committable]) -> Sequence[Committable]:
        """See Committer. What a slot has applied is not: its segments are no longer needed. Reads all others whole.

        Raises IdentityError where a slot has applied a part of its share: what is written again need not be in the same
        order; and where segments are not of one form, so that a slot could not apply them together.
        """
        incarnation = incarnation_of(self.name, self._incarnation, checkpoint_id, committables)
        slots = slots_of(committables) or self._ledger.slots
        entries = self._ledger.entries(incarnation, ())
        lost: list[Committable] = []
        schemas: list[pa.Schema] = []
        with _of_the_log():
            for each in committables:
                ref, slot = segment_of(each), each.transaction.task % slots
                if ref is None or entries.slots.get(slot, entries.applied) >= checkpoint_id:
                    continue
                try:
                    schemas.append(verify_segment(self._storage, ref))
                except (SegmentMissingError, SegmentDamagedError):
                    lost.append(each)
                    if entries.slots.get(slot) == checkpoint_id - 1:
                        self._check_not_begun(slot, entries)
        if any(schema != schemas[0] for schema in schemas):
            message = f"sink {self.name}: rows of checkpoint {checkpoint_id} are of other columns now than they were"
            raise IdentityError(message, remedy="change the steps, the sink and its target back for the repair")
        return lost

    def permit_rewrite(self, scope: Scope) -> None:
        """See Committer. There are no permits; the slots stay as they are. Writers find their folder made."""
        self._prepare(scope)

    def prepared(self, incarnation: str, checkpoint_id: int | None = None) -> Sequence[Prepared]:
        """See Committer. Of what is applied, a crash may have left segments: they are not listed."""
        log = self._log(incarnation, everywhere=checkpoint_id is None)
        with _of_the_log():
            found = {n: each for n, each in log.sealed() if checkpoint_id in (None, each.scope.checkpoint_id)}
            if not found and checkpoint_id is not None:
                return []
            # Asked after the segments were found: what is applied meanwhile is not prepared any more.
            entries = self._ledger.entries(incarnation, [Committable(each, rows=0) for each in found.values()])
            waiting = {
                name: each
                for name, each in found.items()
                if each.scope.checkpoint_id > entries.applied and each not in entries.seen
            }
            foreign = [Prepared(None, f"{self._storage.describe()}/{name}") for name in log.foreign()]
            return [*(self._listed(name, each) for name, each in waiting.items()), *foreign]

    def abort(self, prepared: Iterable[Prepared]) -> None:
        """See Committer. Raises FencedError for a newer epoch's, IdentityError for an applied one; deletes neither."""
        own = [each.transaction for each in prepared if each.transaction is not None]
        check_older(self.name, self._epoch, own)
        for incarnation in {each.scope.incarnation for each in own}:
            with _of_the_log():
                of_life = [each for each in own if each.scope.incarnation == incarnation]
                applied = self._ledger.give_up(incarnation, of_life, self._log(incarnation).delete)
            if applied is not None:
                message = f"sink {self.name} is asked to abort {applied}, which is applied"
                raise IdentityError(message, remedy="head and this sink are not of one moment: restore both together")
        if self._incarnation is not None and self._epoch is not None:
            with _of_the_log():
                self._log(self._incarnation).sweep(self._epoch)

    def revoke(self, scope: Scope, *, counted: bool = False) -> None:
        """See Committer. There are no permits."""

    def fast_forward(self, incarnation: str, epoch: int, checkpoint_id: int, *, counted: int = -1) -> None:
        """See Committer. Nothing waits in the log any more when this is called."""
        self._ledger.fast_forward(Owner(incarnation, epoch), checkpoint_id, counted)

    def prune(self, incarnation: str, below: int) -> None:
        """See Committer. Of the segments only applied ones, whatever `below` says."""
        applied = self._ledger.entries(incarnation, ()).applied
        self._ledger.prune(incarnation, min(below, applied + 1))
        with _of_the_log():
            self._log(incarnation).collect(min(below - 1, applied))

    def close(self) -> None:
        """See Committer. The next call connects again."""
        self._ledger.close()

    def _prepare(self, scope: Scope) -> None:
        with _of_the_log():
            self._log(scope.incarnation).prepare()

    def _slots_in_use(self, incarnation: str) -> int:
        """For a checkpoint without tasks: as many as there are, whatever the spec says by now."""
        return max(self._ledger.entries(incarnation, ()).slots, default=self._ledger.slots - 1) + 1

    def _check_not_begun(self, slot: int, entries: Entries) -> None:
        if rows := entries.begun.get(slot, 0):
            message = f"sink {self.name}, slot {slot}, has written {rows} rows of its share, and the log lacks the rest"
            raise IdentityError(message, remedy="restore the segment: other rows could come in its place")

    def _apply(self, share: Share) -> Mapping[TransactionId, CommitOutcome]:
        with _of_the_log():
            outcomes = self._ledger.apply(share, self._storage)
        if share.slot == 0:
            faults.point("between-commits", share.checkpoint_id, sink_key(self.name))
        return {each.transaction: outcome for each, outcome in zip(share.committables, outcomes, strict=True)}

    def _listed(self, name: str, transaction: TransactionId) -> Prepared:
        description = f"{self._storage.describe()}/{name}"
        try:
            ref = stat_segment(self._storage, name)
        except SegmentError as error:  # to abort it, its name is enough; to commit it, the damage is met again
            return Prepared(transaction, f"{description} ({error.message})")
        return Prepared(transaction, description, committable(transaction, self._ledger.slots, ref.rows, ref))

    def _log(self, incarnation: str, *, everywhere: bool = False) -> SegmentIndex:
        return SegmentIndex(self._storage, sink_key(self.name), incarnation, everywhere)


@contextmanager
def _of_the_log() -> Iterator[None]:
    """Errors of the storage as the driver sees them."""
    try:
        yield
    except WalError as error:
        raise while_committing(error) from error
