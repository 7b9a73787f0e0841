"""The driver's half of a sink with a log in a database: twophase.participants.Committer, method by method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from connectors.log.segments import Log, by_slot, committable, segment_name, slots_of, while_committing
from connectors.sql import claims, tables
from connectors.sql.claims import Owner
from connectors.sql.kept import IDLE_S, Kept
from connectors.sql.log import belonging
from connectors.sql.log.apply import Share, apply_share
from connectors.sql.log.holder import Holder
from connectors.sql.log.slots import TABLES, hold_slot, read_slots, share_out
from connectors.sql.log.store import Store
from connectors.sql.statements import in_transaction
from twophase import faults
from twophase.errors import IdentityError
from twophase.gather import at_once
from twophase.ids import Scope, TransactionId, sink_key
from twophase.participants import Prepared
from twophase.values import CommitOutcome, Committable, SinkState
from wal.errors import SegmentError, WalError
from wal.segment import stat_segment
from wal.storage import Storage


@dataclass(frozen=True, slots=True)
class LogTarget:
    """Where rows of the log go."""

    name: str  # the sink's
    table: str  # as the spec names it
    where: str  # for messages, without secrets
    connect: Callable[[], Store]  # a new connection each time
    slots: int  # that share the rows of a checkpoint, each with a connection of its own
    idle_s: float = IDLE_S  # after which a connection is asked whether it still stands


class LogCommitter:
    """See Committer. `inspect` or `claim` comes first: they tell whose checkpoints are committed.

    Permits are not needed: what an older epoch may still seal has a name that no decision mentions.
    """

    def __init__(self, target: LogTarget, pipeline: str, storage: Storage) -> None:
        self.name = target.name
        self._target = target
        self._pipeline = pipeline
        self._storage = storage
        self._sink = sink_key(target.name)
        self._control = self._holder("control")
        self._slots: dict[int, Holder] = {}
        self._incarnation: str | None = None
        self._epoch: int | None = None  # None: not claimed yet

    def inspect(self, incarnation: str, expected: Sequence[Committable]) -> SinkState:
        """See Committer."""
        self._incarnation = incarnation
        asked = [each.transaction for each in expected if tables.EMPTY not in each.data]
        with self._using("comparing with head") as store:
            tables.ensure(store, TABLES)
            self._check_variant(store)
            with in_transaction(store):
                owner = claims.read_claim(store, self._pipeline, self.name)
                applied = read_slots(store, incarnation, self._sink)
                seen = tables.visible_witnesses(store, asked)
        return SinkState(
            claim_incarnation=owner.incarnation if owner else None,
            claim_epoch=owner.epoch if owner else 0,
            highest_witness=max(applied.values(), default=-1),
            missing=tuple(each for each in asked if each not in seen),
        )

    def claim(self, incarnation: str, epoch: int, *, take_over: bool = False) -> None:
        """See Committer. Sweeps away what older epochs have begun to write, so that they can seal nothing of it, and
        what a crash has left of checkpoints that are applied."""
        with self._using(f"claiming it for epoch {epoch}") as store:
            tables.ensure(store, TABLES)
            claims.raise_claim(store, self._pipeline, self.name, Owner(incarnation, epoch), take_over=take_over)
            self._incarnation, self._epoch = incarnation, epoch
            self._log(incarnation).sweep(epoch)
            self._log(incarnation).collect(min(read_slots(store, incarnation, self._sink).values(), default=-1))

    def permit(self, scope: Scope) -> None:
        """See Committer. Everything before this checkpoint is applied by now: the time for another number of slots."""
        owner, before = Owner(scope.incarnation, scope.epoch), scope.checkpoint_id - 1
        with self._using(f"permitting checkpoint {scope.checkpoint_id}") as store, in_transaction(store):
            claims.hold_claim(store, self._pipeline, self.name, owner)
            share_out(store, scope.incarnation, self._sink, self._target.slots, before)

    def commit(self, checkpoint_id: int, committables: Sequence[Committable]) -> Sequence[CommitOutcome]:
        """See Committer. All of a slot's share or nothing of it; the slots at once, each in a thread.

        Raises LostCommittableError for a damaged segment, BadRowError for a row that the table refuses, IdentityError
        if a checkpoint before this one is not applied, FencedError, SinkUnavailableError.
        """
        incarnation = belonging.incarnation_of(self.name, self._incarnation, checkpoint_id, committables)
        slots = slots_of(committables) or self._slots_in_use(incarnation)
        calls = {
            f"{self.name}, slot {slot}": partial(self._apply, self._share(incarnation, checkpoint_id, slot, of_slot))
            for slot, of_slot in enumerate(by_slot(committables, slots))
        }
        outcomes: dict[TransactionId, CommitOutcome] = {}
        for answer in at_once(calls).values():
            outcomes.update(answer)
        if CommitOutcome.LOST not in outcomes.values():
            with _of_the_log():
                self._log(incarnation).collect(checkpoint_id)
        return [outcomes[each.transaction] for each in committables]

    def prepared(self, incarnation: str) -> Sequence[Prepared]:
        """See Committer. Of what is applied, a crash may have left segments: they are not listed."""
        log = self._log(incarnation)
        with self._using("listing what waits") as store:
            applied = min(read_slots(store, incarnation, self._sink).values(), default=-1)
            waiting = dict(log.waiting(applied))
            seen = tables.visible_witnesses(store, waiting.values())
            foreign = [Prepared(None, f"{self._storage.describe()}/{name}") for name in log.foreign()]
            return [*(self._listed(name, each) for name, each in waiting.items() if each not in seen), *foreign]

    def abort(self, prepared: Iterable[Prepared]) -> None:
        """See Committer. Raises FencedError for a newer epoch's, IdentityError for an applied one; deletes neither."""
        own = [each.transaction for each in prepared if each.transaction is not None]
        belonging.check_older(self.name, self._epoch, own)
        with self._using(f"giving up {len(own)} segments") as store:
            for incarnation in {each.scope.incarnation for each in own}:
                with in_transaction(store):
                    for slot in read_slots(store, incarnation, self._sink):
                        hold_slot(store, incarnation, self._sink, slot)  # nobody applies one of them meanwhile
                    self._delete(store, [each for each in own if each.scope.incarnation == incarnation])
            if self._incarnation is not None and self._epoch is not None:
                self._log(self._incarnation).sweep(self._epoch)

    def revoke(self, scope: Scope) -> None:
        """See Committer. There are no permits."""

    def prune(self, incarnation: str, below: int) -> None:
        """See Committer. Of the segments only applied ones, whatever `below` says."""
        with self._using(f"pruning below checkpoint {below}") as store:
            applied = min(read_slots(store, incarnation, self._sink).values(), default=-1)
            with in_transaction(store):
                tables.prune_witnesses(store, incarnation, self._sink, min(below, applied + 1))
            self._log(incarnation).collect(min(below - 1, applied))

    def close(self) -> None:
        """See Committer. The next call connects again."""
        for holder in (self._control, *self._slots.values()):
            holder.close()

    def _check_variant(self, store: Store) -> None:
        """What two-phase commit has left prepared is not seen from here, and would keep its locks."""
        where = "pipeline = %s AND sink = %s"
        if tables.has_rows(store, "eos_permit", where, self._pipeline, self._sink):
            message = f"sink {self.name} was written to by two-phase commit, which was not ended: it may hold locks"
            raise IdentityError(message, remedy="set its `commit` back to two-phase, and run once until caught up")

    def _slots_in_use(self, incarnation: str) -> int:
        """For a checkpoint without tasks: as many as there are, whatever the spec says by now."""
        with self._using("reading its slots") as store:
            return max(read_slots(store, incarnation, self._sink), default=self._target.slots - 1) + 1

    def _apply(self, share: Share) -> Mapping[TransactionId, CommitOutcome]:
        doing, starting = f"slot {share.slot}, applying checkpoint {share.checkpoint_id}", self._epoch is None
        with _of_the_log(), self._slots[share.slot].use(doing, starting=starting) as store:
            outcomes = apply_share(store, self._storage, share)
        if share.slot == 0:
            faults.point("between-commits", share.checkpoint_id)
        return {each.transaction: outcome for each, outcome in zip(share.committables, outcomes, strict=True)}

    def _share(self, incarnation: str, checkpoint_id: int, slot: int, committables: Sequence[Committable]) -> Share:
        if slot not in self._slots:
            self._slots[slot] = self._holder(f"slot {slot}")
        return Share(
            pipeline=self._pipeline,
            sink=self.name,
            table=self._target.table,
            incarnation=incarnation,
            epoch=self._epoch,
            checkpoint_id=checkpoint_id,
            slot=slot,
            committables=committables,
        )

    def _delete(self, store: Store, transactions: Sequence[TransactionId]) -> None:
        if applied := tables.visible_witnesses(store, transactions):
            message = f"sink {self.name} is asked to abort {min(applied)}, whose rows are in table {self._target.table}"
            raise IdentityError(message, remedy="head and this database are not of one moment: restore both together")
        for each in transactions:
            self._storage.delete(segment_name(each))
            self._storage.sweep(segment_name(each))

    def _listed(self, name: str, transaction: TransactionId) -> Prepared:
        description = f"{self._storage.describe()}/{name}"
        try:
            ref = stat_segment(self._storage, name)
        except SegmentError as error:  # to abort it, its name is enough; to commit it, the damage is met again
            return Prepared(transaction, f"{description} ({error.message})")
        return Prepared(transaction, description, committable(transaction, self._target.slots, ref.rows, ref))

    def _holder(self, part: str) -> Holder:
        target = self._target
        kept = Kept(f"sink {self.name} at {target.where}", target.connect, target.idle_s)
        return Holder(kept, f"{self._pipeline}/{self._sink}/{part}")

    def _log(self, incarnation: str) -> Log:
        return Log(self._storage, self._sink, incarnation)

    @contextmanager
    def _using(self, doing: str) -> Iterator[Store]:
        with _of_the_log(), self._control.use(doing, starting=self._epoch is None) as store:
            yield store


@contextmanager
def _of_the_log() -> Iterator[None]:
    """Errors of the storage as the driver sees them."""
    try:
        yield
    except WalError as error:
        raise while_committing(error) from error
