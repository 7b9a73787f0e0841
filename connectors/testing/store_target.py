"""A target over a small store, and the rows and values that its tests write."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from connectors.api.contracts import Sink
from connectors.log.place import LogPlace
from connectors.stores.preparing import PreparingSink
from connectors.stores.sink import StoreSink
from connectors.stores.token import transaction_name
from connectors.testing.rows import SCHEMA, TEXTS, Row
from connectors.testing.target import leave_in_log
from twophase.ids import Scope, TransactionId, sink_key

ROWS: Final = pa.schema([SCHEMA.field("n"), SCHEMA.field("text")])
"""Of the rows that a store is given by the tests of rows."""

INCARNATION: Final = "c" * 20

VALUES: Final[Sequence[tuple[pa.DataType, Sequence[object]]]] = (
    (pa.bool_(), [True, False, None]),
    (pa.int8(), [-(2**7), 2**7 - 1, None]),
    (pa.int16(), [-(2**15), 2**15 - 1, None]),
    (pa.int32(), [-(2**31), 2**31 - 1, None]),
    (pa.int64(), [-(2**63), 2**63 - 1, 0, None]),
    (pa.float32(), [0.5, -1.25, None]),
    (pa.float64(), [0.1, -1e308, 5e-324, None]),
    (pa.decimal128(38, 9), [Decimal("-99999999999999999999999999999.999999999"), Decimal("0.000000001"), None]),
    (pa.string(), [*TEXTS]),
    (pa.binary(), [b"", b"\x00\xff", None]),
    (pa.date32(), [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31), None]),
    (pa.timestamp("us"), [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), None]),
    (pa.timestamp("us", "UTC"), [datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 3, 29, 1, 30, tzinfo=UTC), None]),
    (pa.list_(pa.int64()), [[1, None], [], None]),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": None}, {"a": None, "b": "x"}, None]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], [], None]),
)
"""The types of rows that Spark gives a sink, with the values that careless code changes."""


@dataclass
class StoreTarget:
    """See Target. A store under a folder of the test."""

    folder: Path
    make_store: Callable[[Path, pa.Schema], Any]
    read: Callable[[Any], pa.Table]
    is_preparing: bool
    keyed: bool = False
    schema: pa.Schema = ROWS
    store: Any = field(init=False)

    def __post_init__(self) -> None:
        self.store = self.make_store(self._data, self.schema)

    def sink(self, name: str) -> Sink:
        return self.sink_of(name, self.store)

    def sink_of(self, name: str, store: Any) -> Sink:
        """Return the sink that the framework builds from this store."""
        return PreparingSink(name, store) if self.is_preparing else StoreSink(name, store, self.log)

    def rows(self) -> Counter[Row]:
        found = self.read(self.store)
        return Counter(zip(found.column("n").to_pylist(), found.column("text").to_pylist(), strict=True))

    def leave_foreign(self) -> Callable[[], None] | None:
        return None if self.is_preparing else leave_in_log(self.log.open())

    def copy(self) -> Callable[[], None]:
        """Copy the store's folder; return what puts the copy in its place. The log stays, as another disk would."""
        if not self._data.exists() or not any(self._data.rglob("*")):
            pytest.skip("not applicable: the store keeps nothing in its folder")
        shutil.copytree(self._data, self.folder / "copy")

        def set_back() -> None:
            shutil.rmtree(self._data)
            shutil.copytree(self.folder / "copy", self._data, dirs_exist_ok=True)

        return set_back

    @property
    def log(self) -> LogPlace:
        """The write-ahead log of a token store."""
        return LogPlace(self.folder / "log")

    @property
    def _data(self) -> Path:
        folder = self.folder / "store"
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def name_of(number: int) -> str:
    """Return the name of a transaction, as the framework would give it."""
    scope = Scope(INCARNATION, 1, number)
    return transaction_name(TransactionId(scope, sink_key("target"), 0, number + 1))


def batches(*written: Row) -> Iterator[pa.RecordBatch]:
    """Return rows as a store gets them."""
    if written:
        columns = [pa.array([row[n] for row in written], field.type) for n, field in enumerate(ROWS)]
        yield pa.record_batch(columns, schema=ROWS)
