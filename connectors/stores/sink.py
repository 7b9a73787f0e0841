"""Level (a): a full sink from a `TokenStore`. Rows wait in segments, and the token counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.log.committer import LogCommitter
from connectors.log.ledger import Entries, Share, missing_segments
from connectors.log.place import LogPlace
from connectors.log.segments import segment_of
from connectors.log.writer import LogWriter, appending_writer
from connectors.owner import Owner
from connectors.stores.base import SmallStoreSink, stored_schema
from connectors.stores.contracts import TokenStore
from connectors.stores.direct import StoreDirectWriter, land_in_token_store
from connectors.stores.slot import Slot, number_of, seen
from twophase import faults
from twophase.ids import Scope, TransactionId
from twophase.values import CommitOutcome, Committable
from wal.errors import WalError
from wal.segment import read_segment
from wal.storage import Storage


@dataclass(frozen=True, slots=True)
class StoreSink(SmallStoreSink[TokenStore]):
    """See Sink. Rows wait in the write-ahead log, and the store takes a checkpoint in one atomic step.

    Example:
        `StoreSink("target", MyStore(...), log=LogPlace(Path("/var/eos/log")))`
    """

    log: LogPlace  # with one slot: a checkpoint becomes visible as a whole

    def open(self, schema: pa.Schema) -> Self:
        """See Sink. Also opens the log: a wrong folder or bucket is found at the start."""
        opened = super(StoreSink, self).open(schema)
        self.log.open()
        return replace(opened, log=self.log.on_driver())

    def open_cached(self, schema: pa.Schema, known: str) -> Self:
        opened = super(StoreSink, self).open_cached(schema, known)
        return replace(opened, log=self.log.on_driver())

    def writer(self, transaction: TransactionId, replaces: Committable | None = None) -> LogWriter:
        del replaces  # the token counts a repaired transaction as the one that it replaces
        return appending_writer(self.log.open(), self.opened, 1, transaction)

    def direct_writer(self, transaction: TransactionId) -> StoreDirectWriter:
        return StoreDirectWriter(
            self.name, partial(land_in_token_store, self.name, self.store), self.opened, transaction
        )

    def committer(self, pipeline: str) -> LogCommitter:
        return LogCommitter(self.name, StoreLedger(self.name, self.store, pipeline), self.log.open())

    def check(self, schema: pa.Schema | None, writers: int | None = None) -> Sequence[Finding]:
        """See Sink. Any number of writers will do: they write to the log."""
        del writers
        return [*self.log.check(), *self._findings(None if schema is None else stored_schema(schema))]


class StoreLedger:
    """See Ledger. One slot: a checkpoint becomes visible as a whole."""

    def __init__(self, sink: str, store: TokenStore, pipeline: str) -> None:
        self.slots = 1
        self._store = store
        self._slot = Slot(
            sink, pipeline, store.applied, lambda slot, expected, token: store.apply(slot, expected, token, iter(()))
        )

    def prepare(self) -> None:
        """See Ledger. The store creates what it needs by itself."""

    def entries(self, incarnation: str, asked: Iterable[Committable]) -> Entries:
        _, found = self._slot.read()
        number = number_of(found, incarnation)
        slots = {} if number is None else {0: number}
        return Entries(found.owner if found else None, slots, seen(found, incarnation, list(asked)))

    def claim(self, owner: Owner, *, take_over: bool, begins: int, counted: int) -> None:
        self._slot.claim(owner, take_over=take_over, begins=begins, counted=counted)

    def share_out(self, scope: Scope) -> None:
        self._slot.check_next(scope)

    def apply(self, share: Share, storage: Storage) -> Sequence[CommitOutcome]:
        def put(expected: str, token: str) -> bool:
            batches = _Batches(storage, share)
            try:
                return self._store.apply(self._slot.key, expected, token, iter(batches))
            except Exception as error:
                if batches.failure is not None and batches.failure is not error:
                    raise batches.failure from error  # however the store has wrapped it
                raise

        return self._slot.advance(share, lambda: missing_segments(storage, share), put)

    def give_up(
        self, incarnation: str, transactions: Sequence[TransactionId], delete: Callable[[Sequence[TransactionId]], None]
    ) -> TransactionId | None:
        return self._slot.give_up(incarnation, transactions, delete)

    def fast_forward(self, owner: Owner, checkpoint_id: int, counted: int) -> None:
        self._slot.fast_forward(owner, checkpoint_id, counted)

    def prune(self, incarnation: str, below: int) -> None:
        """See Ledger. The token tells of every checkpoint."""

    def close(self) -> None:
        """See Ledger. The store keeps connections as it likes."""


class _Batches:
    """The rows of a checkpoint. `failure`: the error of the log that ended them early."""

    def __init__(self, storage: Storage, share: Share) -> None:
        self._storage = storage
        self._share = share
        self.failure: WalError | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for ref in filter(None, map(segment_of, self._share.committables)):
                yield from (batch for batch in read_segment(self._storage, ref) if batch.num_rows)
        except WalError as error:
            self.failure = error
            raise
        faults.point("applying", self._share.checkpoint_id)
