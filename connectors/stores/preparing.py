"""Level (b): a full sink from a `PreparingStore`. Tasks prepare rows in the store, and one commit shows a checkpoint.

Permits are not needed, as with a log. A writer that prepares after its permit was revoked holds nothing that blocks
others, and its transaction is in no decision. So the transaction never lands (R5); the committer removes it with the
next checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.log.ledger import Share
from connectors.owner import Owner, check_counted, check_older, incarnation_of
from connectors.stores.base import SmallStoreSink
from connectors.stores.contracts import PreparingStore
from connectors.stores.direct import StoreDirectWriter, land_in_preparing_store
from connectors.stores.rows import RowForm, stored_schema
from connectors.stores.slot import Slot, number_of, seen
from connectors.stores.stream import RowStream
from connectors.stores.token import transaction_name, transaction_of
from eos.errors import BadRowError, IdentityError, TargetError
from twophase import faults
from twophase.ids import Scope, TransactionId, sink_key
from twophase.participants import Prepared
from twophase.values import CommitOutcome, Committable, SinkState

_PREPARED: Final = "prepared"
"""Key in `Committable.data`: the writer had rows, and the store holds them."""


@dataclass(frozen=True, slots=True)
class PreparingSink(SmallStoreSink[PreparingStore]):
    """See Sink.

    Example:
        `PreparingSink("target", MyStore(...))`
    """

    def writer(self, transaction: TransactionId, replaces: Committable | None = None) -> PreparingWriter:
        del replaces  # the token counts a repaired transaction as the one that it replaces
        return PreparingWriter(self.store, self.opened, transaction)

    def direct_writer(self, transaction: TransactionId) -> StoreDirectWriter:
        return StoreDirectWriter(self.name, partial(land_in_preparing_store, self.store), self.opened, transaction)

    def committer(self, pipeline: str) -> PreparingCommitter:
        return PreparingCommitter(self.name, self.store, pipeline)

    def check(self, schema: pa.Schema | None, writers: int | None = None) -> Sequence[Finding]:
        del writers
        return self.store.check(None if schema is None else stored_schema(schema))


class PreparingWriter:
    """See Writer. A task without rows prepares nothing."""

    def __init__(self, store: PreparingStore, form: RowForm, transaction: TransactionId) -> None:
        self._store = store
        self._form = form
        self._transaction = transaction
        self._name = transaction_name(transaction)
        self._stream: RowStream | None = None
        self._rows = 0
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        rows = self._form.convert(batch, self._rows + 1)
        first = self._stream is None
        if self._stream is None:
            self._stream = RowStream(partial(self._store.prepare, self._name))
        self._stream.push(rows)
        self._rows += batch.num_rows
        self._bytes += rows.nbytes
        if first:
            faults.point("writing", self._transaction.scope.checkpoint_id)

    def write_atomic(self, batch: pa.RecordBatch) -> None:
        """See Writer. An invalid value is found before anything of its batch is sent.

        Raises TargetError where the store itself refuses a row: it cannot leave one row out.
        """
        is_valid = False
        try:
            self._form.convert(batch, self._rows + 1)
            is_valid = True
            self.write(batch)
        except BadRowError as error:
            if is_valid:
                message = f"the store refuses a row, and cannot leave out a single one: {error.message}"
                raise TargetError(message, remedy=error.remedy) from error
            raise

    def prepare(self) -> Committable:
        data = {}
        if self._stream is not None:
            self._stream.finish()
            data[_PREPARED] = self._name
        faults.point("prepared", self._transaction.scope.checkpoint_id)
        return Committable(self._transaction, rows=self._rows, bytes=self._bytes, data=data)

    def abort(self) -> None:
        if self._stream is not None:
            self._stream.give_up()
            with suppress(Exception):  # the error of the task tells more; the committer removes what stays
                self._store.abort([self._name])


class PreparingCommitter:
    """See Committer. `inspect` or `claim` comes first: they tell whose checkpoints are committed."""

    permits_once: Final = True
    slots: Final[frozenset[int]] = frozenset()  # rows do not wait in a log

    def __init__(self, name: str, store: PreparingStore, pipeline: str) -> None:
        self.name = name
        self._store = store
        self._slot = Slot(
            name, pipeline, store.witness, lambda slot, expected, token: store.commit(slot, expected, token, ())
        )
        self._incarnation: str | None = None
        self._epoch: int | None = None  # None: not claimed yet

    def inspect(self, incarnation: str, expected: Sequence[Committable]) -> SinkState:
        self._incarnation = incarnation
        _, found = self._slot.read()
        number, visible = number_of(found, incarnation), seen(found, incarnation, expected)
        return SinkState(
            claim_incarnation=found.owner.incarnation if found else None,
            claim_epoch=found.owner.epoch if found else 0,
            highest_witness=-1 if number is None else number,
            missing=tuple(each.transaction for each in expected if each.transaction not in visible),
            counted=number,
        )

    def claim(
        self, incarnation: str, epoch: int, *, take_over: bool = False, begins: int = -1, counted: int = -1
    ) -> None:
        self._slot.claim(Owner(incarnation, epoch), take_over=take_over, begins=begins, counted=counted)
        self._incarnation, self._epoch = incarnation, epoch
        check_counted(self.name, self._number(incarnation), counted)

    def permit(self, scope: Scope, *, counted: int = -1) -> None:
        """See Committer. Everything before this checkpoint is committed, since it is the first one of a start."""
        check_counted(self.name, self._number(scope.incarnation), counted)
        self._slot.check_next(scope)

    def permit_log(self, scope: Scope) -> None:
        """See Committer. Never called: tasks need the store."""

    def commit(
        self, checkpoint_id: int, committables: Sequence[Committable], *, own: bool = False, known: int | None = None
    ) -> Sequence[CommitOutcome]:
        """See Committer. All of the checkpoint or nothing of it.

        Raises IdentityError if the checkpoint before is not committed, FencedError, SinkUnavailableError.
        """
        incarnation = incarnation_of(self.name, self._incarnation, checkpoint_id, committables)
        share = Share(incarnation, self._epoch, checkpoint_id, 0, committables, own, known)
        names = _names(committables)

        def put(expected: str, token: str) -> bool:
            self._check_variant(committables)
            return self._store.commit(self._slot.key, expected, token, names)

        faults.point("applying", checkpoint_id)
        outcomes = self._slot.advance(share, partial(self._missing, incarnation, names), put)
        if CommitOutcome.LOST not in outcomes:
            faults.point("between-commits", checkpoint_id)
            self._collect(incarnation, checkpoint_id, committables)
        return outcomes

    def count(
        self, incarnation: str, checkpoint_id: int, committables: Sequence[Committable], *, known: int | None = None
    ) -> None:
        """See Committer. The token counts in the step that shows the rows."""

    def missing_committables(self, checkpoint_id: int, committables: Sequence[Committable]) -> Sequence[Committable]:
        incarnation = incarnation_of(self.name, self._incarnation, checkpoint_id, committables)
        missing = set(self._missing(incarnation, _names(committables)))
        number = self._number(incarnation)
        if number is not None and number >= checkpoint_id:
            return []
        self._check_variant(committables)
        return [each for each in committables if each.data.get(_PREPARED) in missing]

    def permit_rewrite(self, scope: Scope) -> None:
        self._slot.check_owner(Owner(scope.incarnation, scope.epoch))

    def prepared(self, incarnation: str, checkpoint_id: int | None = None) -> Sequence[Prepared]:
        """See Committer. The token is read after the listing: what is committed meanwhile is not prepared any more."""
        listed = [each for _, each in self._listed(incarnation) if checkpoint_id in (None, each.scope.checkpoint_id)]
        number = self._number(incarnation) if listed else None
        waiting = [each for each in listed if number is None or each.scope.checkpoint_id > number]
        return [Prepared(each, f"sink {self.name}, transaction {transaction_name(each)}") for each in waiting]

    def abort(self, prepared: Iterable[Prepared]) -> None:
        """See Committer. Raises FencedError for a newer epoch's, IdentityError for a committed one; removes neither."""
        own = [each.transaction for each in prepared if each.transaction is not None]
        check_older(self.name, self._epoch, own)
        for incarnation in {each.scope.incarnation for each in own}:
            of_life = [each for each in own if each.scope.incarnation == incarnation]
            committed = self._slot.give_up(incarnation, of_life, self._remove)
            if committed is not None:
                message = f"sink {self.name} is asked to abort {committed}, which is committed"
                raise IdentityError(message, remedy="head and this sink are not of one moment: restore both together")

    def revoke(self, scope: Scope, *, counted: bool = False) -> None:
        """See Committer. There are no permits. A store that went back may list decided transactions (H27)."""
        if counted:
            check_counted(self.name, self._number(scope.incarnation), scope.checkpoint_id)

    def fast_forward(self, incarnation: str, epoch: int, checkpoint_id: int, *, counted: int = -1) -> None:
        self._slot.fast_forward(Owner(incarnation, epoch), checkpoint_id, counted)

    def prune(self, incarnation: str, below: int) -> None:
        """See Committer. The token tells of every checkpoint."""

    def close(self) -> None:
        """See Committer. The store keeps connections as it likes."""

    def _number(self, incarnation: str) -> int | None:
        return number_of(self._slot.read()[1], incarnation)

    def _listed(self, incarnation: str) -> list[tuple[str, TransactionId]]:
        """Return this sink's prepared transactions of the incarnation, by name."""
        named = ((name, transaction_of(name)) for name in self._store.list(f"{incarnation}-"))
        return [(name, each) for name, each in named if each is not None and each.sink == sink_key(self.name)]

    def _missing(self, incarnation: str, names: Sequence[str]) -> list[str]:
        if not names:
            return []
        held = {name for name, _ in self._listed(incarnation)}
        return [name for name in names if name not in held]

    def _check_variant(self, committables: Sequence[Committable]) -> None:
        """Refuse rows that the store does not hold: both levels keep one token, so the claim does not tell them apart.

        Without this check the token would count a checkpoint whose rows wait in the log.
        """
        other = next((each for each in committables if each.rows and _PREPARED not in each.data), None)
        if other is not None:
            message = f"sink {self.name}: {other.transaction} is decided, and was not prepared in the store"
            raise IdentityError(message, remedy="set the sink's `commit` back as it was, and run once until caught up")

    def _collect(self, incarnation: str, checkpoint_id: int, committables: Sequence[Committable]) -> None:
        """Remove what no decision names any more: other attempts of this checkpoint, and late ones of earlier.

        A copy that takes the store's place lists decided transactions. So the token is read after the listing, and
        SetBackError leaves all of them where they are (H27). What a newer epoch prepares is not this driver's: a repair
        may have written a checkpoint again.
        """
        late = [each for _, each in self._listed(incarnation) if each.scope.checkpoint_id <= checkpoint_id]
        if not late:
            return
        _, found = self._slot.read()
        if found is not None and found.owner.incarnation != incarnation:
            return  # a reset has ended this incarnation, and removes what is left of it
        check_counted(self.name, number_of(found, incarnation), checkpoint_id)
        newest = self._epoch  # None: of a start, which knows the epochs of the decision alone
        if newest is None:
            newest = max((each.transaction.scope.epoch for each in committables), default=0)
        self._remove([each for each in late if each.scope.epoch <= newest])

    def _remove(self, transactions: Sequence[TransactionId]) -> None:
        if transactions:
            self._store.abort([transaction_name(each) for each in transactions])


def _names(committables: Sequence[Committable]) -> list[str]:
    """Return the names of the transactions that the store holds."""
    return [each.data[_PREPARED] for each in committables if _PREPARED in each.data]
