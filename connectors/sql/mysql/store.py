"""A connection that applies the log to MySQL or MariaDB. See connectors.sql.log.store.Store."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import pyarrow as pa

from connectors.sql.mysql import stragglers
from connectors.sql.mysql.bulk import Bulk
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.stored import plans_of
from connectors.sql.mysql.target import read_target
from connectors.sql.sender import Sender


class MySqlStore(Session):
    """See Store."""

    def __init__(self, url: str) -> None:
        """Connect. Raises ServerError. `url`: a secret."""
        super().__init__(url, lock_wait_s=1)  # the driver waits between its calls, and longer each time

    def load(self, table: str, batches: Iterable[pa.RecordBatch]) -> None:
        """See Store."""
        sender, bulk, row = Sender(), None, 1
        try:
            for batch in batches:
                bulk = bulk or self._bulk(table, batch.schema)
                for payload in bulk.encode_stored(batch, row):
                    sender.submit(partial(bulk.send, self, payload))
                row += batch.num_rows
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

    def _bulk(self, table: str, schema: pa.Schema) -> Bulk:
        local, max_packet = self.execute("SELECT @@local_infile, @@max_allowed_packet")[0]
        target = read_target(self, table).quoted
        return Bulk(target, plans_of(schema), local=bool(local), max_packet_bytes=int(max_packet))
