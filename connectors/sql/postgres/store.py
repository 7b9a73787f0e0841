"""A connection that applies the log to PostgreSQL. See connectors.sql.log.store.Store."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import pyarrow as pa

from connectors.sql.column_text import slices
from connectors.sql.postgres import stragglers
from connectors.sql.postgres.copying import copy, copy_statement, lines
from connectors.sql.postgres.engine import Session
from connectors.sql.postgres.stored import plans_of
from connectors.sql.postgres.target import read_target
from connectors.sql.sender import Sender


class PostgresStore(Session):
    """See Store."""

    def __init__(self, url: str) -> None:
        """Connect. Raises ServerError. `url`: a secret."""
        super().__init__(url, lock_wait_s=1)  # the driver waits between its calls, and longer each time

    def load(self, table: str, batches: Iterable[pa.RecordBatch]) -> None:
        """See Store."""
        sender, target, row = Sender(), read_target(self, table).quoted, 1
        try:
            for batch in batches:
                plans = plans_of(batch.schema)
                statement = copy_statement(target, plans)
                for part in slices(batch):
                    data = [lines(plans, part.columns)]
                    sender.submit(partial(copy, self, statement, data, part.num_rows, row))
                    row += part.num_rows
            sender.wait()
        finally:
            sender.settle()
            sender.close()

    def mark(self, name: str) -> None:
        """See Store."""
        stragglers.mark(self, name)

    def end(self, name: str) -> int:
        """See Store."""
        return stragglers.end(self, name)
