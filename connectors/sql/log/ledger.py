"""A ledger in the database that the rows go to, so that both change in one transaction (see connectors.log.ledger).

A driver that was stopped in the middle of a transaction keeps its locks for as long as the server lets it. Its
connection has a mark (`Holder`). The start of the next driver finds the connection, waits, and ends it. Only a start
does so: a driver that has claimed the sink meets no older driver, and two drivers that end one another would both fail.

An applier holds the claim shared and its slot. A claim waits for appliers of all slots, and ends them itself
(connectors.sql.claims). A start that applies before its claim (R3) waits for the applier of the same slot, and for a
claim under way.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Final

from connectors.log.ledger import Entries, Share
from connectors.owner import Owner
from connectors.sql import claims, tables
from connectors.sql.claims import FROZEN_S
from connectors.sql.log.apply import Target, apply_share
from connectors.sql.log.refusing import DeadLettersTable
from connectors.sql.log.store import Store
from connectors.sql.reconnecting import IDLE_S, ReconnectingConnection
from connectors.sql.slots import LOG_TABLES, begin_slots, check_count, hold_slot, raise_slots, read_slots, share_out
from connectors.sql.statements import StatementError, in_transaction
from eos.errors import IdentityError
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import CommitOutcome, Committable
from wal.storage import Storage

_log: Final = logging.getLogger("eos.sink")


class Holder:
    """One marked connection. For one thread at a time."""

    def __init__(
        self,
        kept: ReconnectingConnection[Store],
        mark: str,
        member: int | None = None,
        end_others: Callable[[Store], int] | None = None,
    ) -> None:
        """Take a connection that is not marked yet.

        Args:
            kept: the connection.
            mark: the same for every driver of the pipeline that does the same there; a blocked start ends the others.
            member: which connection of the mark it is, and which of the others a blocked start ends.
            end_others: ends connections of other marks that may block it; returns how many.
        """
        self._kept = kept
        self._mark = mark
        self._member = member
        self._end_others = end_others
        self._marked: Store | None = None
        self._blocked_since: float | None = None

    @contextmanager
    def use(self, doing: str, *, starting: bool) -> Iterator[Store]:
        """See ReconnectingConnection.use. `starting`: this driver has not claimed the sink yet."""
        with self._kept.use(doing) as store:
            if self._marked is not store:
                store.mark(self._mark, self._member)
                self._marked = store
            try:
                yield store
            except StatementError as error:
                if error.lock_wait and starting:
                    self._blocked(store)
                raise
        self._blocked_since = None

    def close(self) -> None:
        """Disconnect; the next call connects again."""
        self._marked = None
        self._kept.close()

    def _blocked(self, store: Store) -> None:
        now = time.monotonic()
        if self._blocked_since is None:
            self._blocked_since = now
        elif now - self._blocked_since > FROZEN_S:
            self._blocked_since = None
            ended = store.end(self._mark, self._member)
            ended += self._end_others(store) if self._end_others is not None else 0
            _log.warning("%s: ended %d connections of an earlier driver, which held its locks", self._mark, ended)


@dataclass(frozen=True, slots=True)
class LogTarget:
    """Where rows of the log go."""

    name: str  # the sink's
    table: str  # as the spec names it
    where: str  # for messages, without secrets
    connect: Callable[[], Store]  # a new connection each time
    slots: int  # that share the rows of a checkpoint, each with a connection of its own
    idle_s: float = IDLE_S  # after which a connection is asked whether it still stands
    letters: Callable[[], DeadLettersTable] | None = (
        None  # opens the table that takes refused rows, in the same database
    )
    most_letters: int = 0  # rows of a share that may be refused; more are an error
    create: Callable[[], None] | None = None  # creates a missing database, if the spec says so


class SqlLedger:
    """The slots of a log's target in a SQL database."""

    def __init__(self, target: LogTarget, pipeline: str) -> None:
        self.slots = target.slots
        self._target = target
        self._pipeline = pipeline
        self._sink = sink_key(target.name)
        self._control = Holder(self._kept(), claims.control(pipeline, self._sink))
        self._slots: dict[int, Holder] = {}
        self._claimed = False
        self._letters: DeadLettersTable | None = None
        self._opening = Lock()

    def prepare(self) -> None:
        """See Ledger. Raises IdentityError where two-phase commit may have left something."""
        if self._target.create is not None:
            self._target.create()
        with self._using("looking for its own tables") as store:
            tables.ensure(store, LOG_TABLES, self._target.where)
            self._check_variant(store)

    def entries(self, incarnation: str, asked: Iterable[Committable]) -> Entries:
        """See Ledger. All of one moment."""
        asked = list(asked)
        empty = {each.transaction for each in asked if tables.EMPTY in each.data}  # of two-phase commit, earlier
        wanted = [each for each in asked if each.transaction not in empty]
        with self._using("reading how far it is") as store, in_transaction(store):
            owner = claims.read_claim(store, self._pipeline, self._target.name)
            slots = read_slots(store, incarnation, self._sink)
            return Entries(owner, slots, empty | tables.shown(store, wanted))

    def claim(self, owner: Owner, *, take_over: bool, begins: int, counted: int) -> None:
        """See Ledger. Waits for the transactions of older appliers; later ones meet the new claim (H28)."""
        for holder in self._slots.values():
            holder.close()  # so that this claim ends only connections of other drivers
        with self._using(f"claiming it for {owner}") as store:
            claims.raise_claim(store, self._pipeline, self._target.name, owner, take_over=take_over, counted=counted)
            with in_transaction(store):
                claims.hold_claim(store, self._pipeline, self._target.name, owner)
                begin_slots(store, owner.incarnation, self._sink, self.slots, begins)
        self._claimed = True

    def share_out(self, scope: Scope) -> None:
        owner = Owner(scope.incarnation, scope.epoch)
        with self._using(f"permitting checkpoint {scope.checkpoint_id}") as store, in_transaction(store):
            claims.hold_claim(store, self._pipeline, self._target.name, owner)
            share_out(store, scope.incarnation, self._sink, self.slots, scope.checkpoint_id - 1)

    def apply(self, share: Share, storage: Storage) -> Sequence[CommitOutcome]:
        """See Ledger. A slot has its own connection."""
        if share.slot not in self._slots:
            self._slots[share.slot] = self._applier(share.slot)
        doing = f"slot {share.slot}, applying checkpoint {share.checkpoint_id}"
        target = Target(self._pipeline, self._target.name, self._target.table, self._target.most_letters)
        letters = self._open_letters if self._target.letters is not None else None
        with self._slots[share.slot].use(doing, starting=not self._claimed) as store:
            return apply_share(store, storage, target, share, letters)

    def _open_letters(self) -> DeadLettersTable:
        """Once, for all slots. Raises TargetError, SinkUnavailableError."""
        with self._opening:
            if self._letters is None:
                assert self._target.letters is not None
                self._letters = self._target.letters()
            return self._letters

    def give_up(
        self, incarnation: str, transactions: Sequence[TransactionId], delete: Callable[[Sequence[TransactionId]], None]
    ) -> TransactionId | None:
        with self._using(f"giving up {len(transactions)} segments") as store, in_transaction(store):
            for slot in read_slots(store, incarnation, self._sink):
                hold_slot(store, incarnation, self._sink, slot)  # nobody applies one of them meanwhile
            applied = tables.visible_witnesses(store, transactions)
            if not applied:
                delete(transactions)
            return min(applied, default=None)

    def fast_forward(self, owner: Owner, checkpoint_id: int, counted: int) -> None:
        with self._using(f"going on from checkpoint {checkpoint_id}") as store, in_transaction(store):
            claims.hold_claim(store, self._pipeline, self._target.name, owner)
            check_count(store, owner.incarnation, self._target.name, counted)
            raise_slots(store, owner.incarnation, self._sink, checkpoint_id)

    def prune(self, incarnation: str, below: int) -> None:
        with self._using(f"pruning below checkpoint {below}") as store:
            tables.prune_witnesses(store, incarnation, self._sink, below)

    def close(self) -> None:
        for holder in (self._control, *self._slots.values()):
            holder.close()

    def _check_variant(self, store: Store) -> None:
        """What two-phase commit has left prepared is not seen from here, and would keep its locks."""
        where = "pipeline = %s AND sink = %s"
        if tables.has_rows(store, "eos_permit", where, self._pipeline, self._sink):
            name = self._target.name
            message = f"sink {name} was written to by two-phase commit, which was not ended: it may hold locks"
            raise IdentityError(message, remedy="set its `commit` back to two-phase, and run once until caught up")

    def _applier(self, slot: int) -> Holder:
        return Holder(self._kept(), claims.appliers(self._pipeline, self._sink), slot, self._end_claims)

    def _end_claims(self, store: Store) -> int:
        """End claims under way of other drivers. Only for a start, which does not use its control connection meanwhile:
        it closes that connection first, so that it is not among those."""
        self._control.close()
        return store.end(claims.control(self._pipeline, self._sink))

    def _kept(self) -> ReconnectingConnection[Store]:
        target = self._target
        return ReconnectingConnection(f"sink {target.name} at {target.where}", target.connect, target.idle_s)

    @contextmanager
    def _using(self, doing: str) -> Iterator[Store]:
        with self._control.use(doing, starting=not self._claimed) as store:
            yield store
