"""The stores of docs/tutorial/plugins.md, by the tests that ship with the framework."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from connectors.testing.stores import PreparingStoreCompliance, TokenStoreCompliance
from examples.plugin_shelf.eos_shelf.store import SqliteStore
from examples.stores.preparing_store import FolderStore


class TestTokenStore(TokenStoreCompliance):
    """Level (a)."""

    types = (pa.int64(), pa.float64(), pa.string(), pa.binary())

    def make_store(self, folder: Path, schema: pa.Schema) -> SqliteStore:
        with closing(sqlite3.connect(folder / "t.db")) as database:
            database.execute(f"CREATE TABLE target ({', '.join(schema.names)})")
        return SqliteStore(folder / "t.db", "target")

    def read(self, store: SqliteStore) -> pa.Table:
        with closing(sqlite3.connect(store.path)) as database:
            found = database.execute(f"SELECT * FROM {store.table}")
            names = [column[0] for column in found.description]
            rows = found.fetchall()
        return pa.table({name: [row[n] for row in rows] for n, name in enumerate(names)})


class TestPreparingStore(PreparingStoreCompliance):
    """Level (b)."""

    def make_store(self, folder: Path, schema: pa.Schema) -> FolderStore:
        return FolderStore(folder)

    def read(self, store: FolderStore) -> pa.Table:
        batches = list(store.read())
        return pa.Table.from_batches(batches) if batches else pa.table({"n": [], "text": []})
