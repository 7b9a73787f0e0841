"""Level (a): a full sink from a `TokenStore`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.log.committer import LogCommitter
from connectors.log.place import LogPlace
from connectors.log.writer import LogWriter
from connectors.stores.base import SmallStoreSink
from connectors.stores.contracts import TokenStore
from connectors.stores.direct import StoreDirectWriter, land_in_token_store
from connectors.stores.ledger import StoreLedger
from connectors.stores.rows import stored_schema
from twophase.ids import TransactionId
from twophase.values import Committable


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
        return LogWriter(self.log.open(), self.opened, 1, transaction)

    def direct_writer(self, transaction: TransactionId) -> StoreDirectWriter:
        return StoreDirectWriter(self.name, partial(land_in_token_store, self.store), self.opened, transaction)

    def committer(self, pipeline: str) -> LogCommitter:
        return LogCommitter(self.name, StoreLedger(self.name, self.store, pipeline), self.log.open())

    def check(self, schema: pa.Schema | None, writers: int | None = None) -> Sequence[Finding]:
        """See Sink. Any number of writers will do: they write to the log."""
        del writers
        return [*self.log.check(), *self.store.check(None if schema is None else stored_schema(schema))]
