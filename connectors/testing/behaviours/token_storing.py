"""Level (a): rows and token are one step, however the rows end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from connectors.testing.behaviours.storing import Storing
from connectors.testing.rows import Row, rows
from connectors.testing.store_target import batches


class TokenStoring(Storing):
    """See the module."""

    is_preparing = False

    def test_rows_that_end_in_an_error_leave_nothing(self, store: Any) -> None:
        assert self.put(store, "s", "", "one", 0, *rows(0, 3))

        def broken() -> Iterator[pa.RecordBatch]:
            yield from batches(*rows(3, 5))
            raise OSError("the log cannot be read")

        with pytest.raises(Exception, match="the log cannot be read"):
            store.apply("s", "one", "two", broken())
        assert (self.token(store, "s"), self.seen(store)) == ("one", Counter(rows(0, 3)))
        assert self.put(store, "s", "one", "two", 1, *rows(3, 5))
        assert self.seen(store) == Counter(rows(0, 5))

    def test_manybatches_are_one_step(self, store: Any) -> None:
        """No reader sees a part of them."""
        parts: list[Counter[Row]] = []

        def watched() -> Iterator[pa.RecordBatch]:
            for n in range(4):
                yield from batches(*rows(n * 10, n * 10 + 10))
                with suppress(Exception):  # an embedded store may lock readers out meanwhile
                    parts.append(self.seen(store))

        assert store.apply("s", "", "one", watched())
        assert not any(parts)
        assert self.seen(store) == Counter(rows(0, 40))
