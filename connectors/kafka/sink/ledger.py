"""A ledger in Kafka itself: claim and markers are records, committed in the transaction of the messages (H10).

Whoever opens a slot's producer ends the open transaction of whoever had it, and waits until that is done. So what the
marker says then is final, and whoever is fenced learns from the claim whether that was its successor.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa

from connectors.kafka.pool import shared_admin
from connectors.kafka.sink.markers import CLAIMS, Claim, Marker, Markers, partition_of_marker
from connectors.kafka.sink.messages import parts, sender
from connectors.kafka.sink.place import Names, Place
from connectors.kafka.sink.producer import FencedProducerError, TransactionalProducer
from connectors.kafka.sink.target import BATCH, Topics, check_timeout, ensure_markers, in_sink_words
from connectors.log.ledger import Entries, Share, gap, missing_segments
from connectors.log.segments import is_of_log, segment_of, slots_of
from connectors.owner import Owner, check_applier, check_counted, check_succession, fenced_error
from eos.errors import IdentityError, SinkUnavailableError
from twophase import faults
from twophase.gather import at_once
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import CommitOutcome, Committable
from wal.segment import read_segment
from wal.storage import Storage

_CLAIM_S: Final = 10.0  # for the transaction of a claim
_MOST_SLOTS: Final = 64  # that a spec can ask for
_SHARE_OF_TIMEOUT: Final = 0.25  # after which a transaction is committed with as much as it has
_LARGE_BYTES: Final = 64 * 1024 * 1024  # of a segment, for which no transaction waits

_log: Final = logging.getLogger("eos.sink")


class _Slot:
    """A producer that nobody has fenced, as far as is known, and where it left off."""

    def __init__(self, producer: TransactionalProducer, key: str) -> None:
        self.producer = producer
        self.key = key
        self.marker: Marker | None = None

    def is_at(self, checkpoint_id: int) -> bool:
        """As far as this process knows."""
        return self.marker is not None and self.marker.applied == checkpoint_id

    def commit(self, marker: Marker) -> None:
        self.producer.commit(self.key, partition_of_marker(self.key), marker.record())
        self.marker = marker


class KafkaLedger:
    """The markers and claims of a Kafka sink."""

    def __init__(self, sink: str, place: Place, slots: int, pipeline: str) -> None:
        self.slots = slots
        self._sink = sink
        self._place = place
        self._names = Names(pipeline, sink_key(sink))
        self._markers = Markers(place.connection, place.markers)
        self._open: dict[int, _Slot] = {}

    def prepare(self) -> None:
        with self._asking("looking for its markers"), shared_admin(self._place.connection) as admin:
            ensure_markers(admin, self._place.markers)
            check_timeout(admin, self._place)

    def entries(self, incarnation: str, asked: Iterable[Committable]) -> Entries:
        """See Ledger. What was applied while there were more slots than now is told by theirs."""
        asked = list(asked)
        claim = self._claim()
        in_use = claim.slots if claim and claim.owner.incarnation == incarnation else _MOST_SLOTS
        markers = self._slot_markers(incarnation, max([in_use, *map(_slots_of, asked)]))
        applied = {slot: marker.applied for slot, marker in markers.items()}
        current = {slot: checkpoint_id for slot, checkpoint_id in applied.items() if slot < in_use}
        seen = {each.transaction for each in asked if _is_applied(each, _slots_of(each) or len(current), applied)}
        begun = {slot: marker.rows for slot, marker in markers.items() if marker.rows}
        return Entries(claim.owner if claim else None, current, seen, begun)

    def claim(self, owner: Owner, *, take_over: bool, begins: int, counted: int) -> None:
        """See Ledger. First the claim, then every slot's producer anew: who opens one later finds the claim."""
        self.close()
        with self._claiming() as (change, found):
            if found is None or found.owner.incarnation != owner.incarnation:
                check_counted(self._sink, None, counted)
            if found is not None and not take_over:
                check_succession(self._sink, found.owner, owner)
            same_life = found is not None and found.owner.incarnation == owner.incarnation
            in_use = found.slots if found and same_life else self.slots
            change(Claim(owner, in_use))
        slots = range(max(in_use, self.slots, found.slots if found else 0))
        at_once({f"slot {slot}": partial(self._slot, owner.incarnation, owner.epoch, slot) for slot in slots})
        if not any(slot.marker for slot in self._open.values()):
            for slot in range(in_use):
                self._begin(owner, slot, Marker(begins))

    def share_out(self, scope: Scope) -> None:
        """See Ledger. The markers are read, not remembered: another process may be the one that commits.

        A slot that was in use before keeps its marker where that is of the checkpoint before: a start may commit that
        once more, since another sink is away (H32), and the marker says what the slot applied.
        """
        owner, before = Owner(scope.incarnation, scope.epoch), scope.checkpoint_id - 1
        found = self._owned(owner)
        applied = self._applied(scope.incarnation, max(found.slots, self.slots))
        for slot in range(self.slots):
            if applied.get(slot) == before:
                continue
            if slot in applied and slot < found.slots:
                message = (
                    f"slot {slot} stands at checkpoint {applied[slot]}, and everything up to {before} was committed"
                )
                raise IdentityError(message, remedy="restore Kafka and the checkpoint location to the same moment")
            self._begin(owner, slot, Marker(before))
        if found.slots != self.slots:
            with self._claiming() as (change, now):
                if now != found:
                    raise fenced_error(self._sink, now.owner if now else None, owner)
                change(Claim(owner, self.slots))

    def apply(self, share: Share, storage: Storage) -> Sequence[CommitOutcome]:
        """See Ledger. One transaction, unless it would take too long: then several, each with how far it came."""
        missing = missing_segments(storage, share)
        slot = self._slot(share.incarnation, share.epoch, share.slot)
        if missing or not slot.is_at(share.checkpoint_id - 1):
            # What another process has done since this one opened the slot, only Kafka knows.
            self._shut(share.slot)
            slot = self._slot(share.incarnation, share.epoch, share.slot)
        marker, digest = slot.marker, _digest(share.committables)
        if marker is not None and marker.applied >= share.checkpoint_id:
            share.check_not_past(self._sink, marker.applied)
            other = marker.applied == share.checkpoint_id and marker.of != digest
            return [CommitOutcome.LOST if other else CommitOutcome.ALREADY_COMMITTED] * len(share.committables)
        if marker is None or not share.is_next(marker.applied):
            raise gap(self._sink, share, marker.applied if marker else None)
        if marker.rows and marker.begun != digest:
            message = f"sink {self._sink}, slot {share.slot}: {marker.rows} rows of checkpoint {share.checkpoint_id} "
            message += "were written with another decision than head's"
            raise IdentityError(message, remedy="restore the sink's topics and the checkpoint location to one moment")
        if missing:
            _log.error("sink %s: the log lacks %s: restore it, and start again", self._sink, ", ".join(missing))
            return [CommitOutcome.LOST] * len(share.committables)
        with self._fencing(share.incarnation, share.epoch, share.slot):
            self._write(slot, marker, share, _batches(storage, share, marker.rows))
        return [CommitOutcome.COMMITTED] * len(share.committables)

    def give_up(
        self, incarnation: str, transactions: Sequence[TransactionId], delete: Callable[[Sequence[TransactionId]], None]
    ) -> TransactionId | None:
        """See Ledger. Only this driver can apply them, since it has claimed the sink."""
        entries = self.entries(incarnation, [Committable(each, rows=0) for each in transactions])
        if not entries.seen:
            delete(transactions)
        return min(entries.seen, default=None)

    def fast_forward(self, owner: Owner, checkpoint_id: int, counted: int) -> None:
        found = self._owned(owner)
        slots = self._applied(owner.incarnation, found.slots)
        check_counted(self._sink, min(slots.values(), default=None), counted)
        for slot, applied in slots.items():
            if applied < checkpoint_id:
                self._begin(owner, slot, Marker(checkpoint_id))

    def prune(self, incarnation: str, below: int) -> None:
        """See Ledger. A marker tells of every checkpoint."""

    def close(self) -> None:
        for number in list(self._open):
            self._shut(number)

    def _write(self, slot: _Slot, before: Marker, share: Share, batches: Iterator[pa.RecordBatch | None]) -> None:
        """Whatever is raised here: the marker in Kafka tells what became of it."""
        digest, rows, limit_s = _digest(share.committables), before.rows, self._place.transaction_timeout_s
        began: float | None = None  # when the brokers heard of the transaction
        slot.producer.begin()
        for batch in batches:
            if batch is not None:
                began = began or time.monotonic()
                slot.producer.produce(sender(batch), batch.num_rows, batch.nbytes)
                rows += batch.num_rows
            if began and (batch is None or time.monotonic() - began > limit_s * _SHARE_OF_TIMEOUT):
                slot.commit(replace(before, begun=digest, rows=rows))
                faults.point("part-applied", share.checkpoint_id)
                began = None
                slot.producer.begin()
        faults.point("applying", share.checkpoint_id, sink_key(self._sink))
        slot.commit(Marker(share.checkpoint_id, digest))

    def _begin(self, owner: Owner, number: int, marker: Marker) -> None:
        """A slot that is new, or that nobody has used for a while, begins there: everything before is applied."""
        slot = self._slot(owner.incarnation, owner.epoch, number)
        with self._fencing(owner.incarnation, owner.epoch, number):
            slot.producer.begin()
            slot.commit(marker)

    def _slot(self, incarnation: str, epoch: int | None, number: int) -> _Slot:
        """Open, and nobody newer there: the claim is read after whoever had it was fenced."""
        if number not in self._open:
            with self._fencing(incarnation, epoch, number):
                batch_bytes = Topics.of_sink(self._sink, self._place).batch_bytes
                producer = TransactionalProducer(self._place, self._names.slot(number), batch_bytes)
                self._open[number] = slot = _Slot(producer, self._names.marker(incarnation, number))
                self._check_applier(incarnation, epoch)
                with self._asking(f"slot {number}"):
                    slot.marker = self._markers.markers([slot.key]).get(slot.key)
        return self._open[number]

    def _shut(self, number: int) -> None:
        """What is open there is given up. Markers are read anew: the broker may have gone back in time (H26)."""
        self._markers.forget()
        if slot := self._open.pop(number, None):
            slot.producer.close()

    @contextmanager
    def _fencing(self, incarnation: str, epoch: int | None, number: int) -> Iterator[None]:
        """After any error the slot is opened anew. Raises FencedError if it is another driver's now."""
        try:
            yield
        except BaseException as error:
            self._shut(number)
            if not isinstance(error, FencedProducerError):
                raise
            self._check_applier(incarnation, epoch)
            message = f"sink {self._sink}, slot {number}: its transaction was ended by another process"
            raise SinkUnavailableError(message, remedy="its progress is looked up and the commit retried") from None

    @contextmanager
    def _claiming(self) -> Iterator[tuple[Callable[[Claim], None], Claim | None]]:
        """To read the claim and to change it, as one: who comes in between is fenced, or fences."""

        def change(claim: Claim) -> None:
            producer.begin()
            producer.commit(self._names.claim, CLAIMS, claim.record())

        try:
            # Cut off, it holds up all pipelines that have their claims there.
            place = replace(self._place, transaction_timeout_s=min(_CLAIM_S, self._place.transaction_timeout_s))
            producer = TransactionalProducer(place, self._names.claim, BATCH)
            try:
                yield change, self._claim()
            finally:
                producer.close()
        except FencedProducerError:
            message = f"sink {self._sink}: another driver claims it at this moment"
            raise SinkUnavailableError(message, remedy="it is tried again") from None

    def _applied(self, incarnation: str, slots: int) -> dict[int, int]:
        """The newest applied checkpoint of each of so many slots, but for those without a marker."""
        return {slot: marker.applied for slot, marker in self._slot_markers(incarnation, slots).items()}

    def _slot_markers(self, incarnation: str, slots: int) -> dict[int, Marker]:
        keys = {self._names.marker(incarnation, slot): slot for slot in range(slots)}
        with self._asking("reading how far it is"):
            found = self._markers.markers(list(keys))
        return {keys[key]: marker for key, marker in found.items()}

    def _owned(self, owner: Owner) -> Claim:
        """The claim, if it is this driver's. Raises FencedError."""
        found = self._claim()
        if found is None or found.owner != owner:
            raise fenced_error(self._sink, found.owner if found else None, owner)
        return found

    def _claim(self) -> Claim | None:
        with self._asking("asking whose it is"):
            return self._markers.claim(self._names.claim)

    def _check_applier(self, incarnation: str, epoch: int | None) -> None:
        claim = self._claim()
        check_applier(self._sink, claim.owner if claim else None, incarnation, epoch)

    def _asking(self, doing: str) -> AbstractContextManager[None]:
        return in_sink_words(f"sink {self._sink}, {doing}")


def _batches(storage: Storage, share: Share, skip: int) -> Iterator[pa.RecordBatch | None]:
    """The share's messages in their order, without the first `skip`, which are written already. None: the next ones
    may take long to come, since a segment is fetched and verified whole before its first row is given out."""
    for ref in filter(None, map(segment_of, share.committables)):
        if ref.bytes > _LARGE_BYTES:
            yield None
        for batch in read_segment(storage, ref):
            passed = min(skip, batch.num_rows)
            skip -= passed
            yield from parts(batch.slice(passed))


def _slots_of(each: Committable) -> int:
    """That it was written for; 0: it does not say."""
    return (slots_of([each]) or 0) if is_of_log(each) else 0


def _is_applied(each: Committable, slots: int, applied: Mapping[int, int]) -> bool:
    transaction = each.transaction
    return slots > 0 and applied.get(transaction.task % slots, -1) >= transaction.scope.checkpoint_id


def _digest(committables: Sequence[Committable]) -> str:
    """Of what a slot is applied with."""
    return hashlib.sha256(" ".join(str(each.transaction) for each in committables).encode()).hexdigest()[:32]
