"""The store, by the suite that ships with eos-spark."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
from eos_shelf.store import SqliteStore

from eos.testing import TokenStoreCompliance


class TestSqliteStore(TokenStoreCompliance):
    types = (pa.int64(), pa.float64(), pa.string(), pa.binary())  # that the store takes unaltered

    def make_store(self, folder: Path, schema: pa.Schema) -> SqliteStore:
        with closing(sqlite3.connect(folder / "t.db")) as database:
            database.execute(f"CREATE TABLE target ({', '.join(schema.names)})")
        return SqliteStore(folder / "t.db", "target")

    def read(self, store: SqliteStore) -> pa.Table:
        with closing(sqlite3.connect(store.path)) as database:
            found = database.execute(f"SELECT * FROM {store.table}")
            names, rows = [column[0] for column in found.description], found.fetchall()
        return pa.table({name: [row[n] for row in rows] for n, name in enumerate(names)})
