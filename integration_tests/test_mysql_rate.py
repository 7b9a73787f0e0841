"""How fast the writer is beside a bare LOAD DATA of the same rows, on the same server."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from connectors.sql.mysql import writer as writer_module
from connectors.sql.mysql.bulk import Bulk
from connectors.sql.mysql.engine import Session
from integration_tests.mysql_support import Bench, bench
from integration_tests.mysql_support import clean_up as clean_up
from twophase.values import CommitOutcome

ROWS = 300_000
BATCH = 10_000  # rows; what Spark sends to a Python task at a time
COLUMNS = "id BIGINT, user VARCHAR(50), amount DOUBLE, ts DATETIME(6), note VARCHAR(100)"
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("user", pa.string()),
        ("amount", pa.float64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("note", pa.string()),
    ]
)


def records() -> list[pa.RecordBatch]:
    """Rows of about 80 bytes as text."""
    ids = pa.array(np.arange(10_000_000, 10_000_000 + ROWS))
    table = pa.table(
        [
            ids,
            pc.binary_join_element_wise("user-", ids.cast(pa.string()), ""),
            pa.array(np.arange(ROWS) / 8),
            pa.array(1_704_067_200_123_456 + np.arange(ROWS)).cast(pa.timestamp("us", "UTC")),
            pa.array(["a note of a few words"] * ROWS),
        ],
        schema=SCHEMA,
    )
    return list(table.to_batches(max_chunksize=BATCH))


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return ROWS / (time.perf_counter() - start)


def raw_rate(made: Bench, batches: list[pa.RecordBatch]) -> float:
    """One LOAD DATA of one ready payload, in a transaction of its own: what the server can take."""
    bulk = Bulk(made.sink.target, made.sink.plans, local=True, max_packet_bytes=1 << 24)
    payloads = [payload for batch in batches for payload in bulk.encode(batch, 1)]
    whole = memoryview(b"".join(bytes(each.file or b"") for each in payloads))
    with Session(made.url) as session:
        rate = timed(lambda: session.send(payloads[0].statement, whole))
        session.execute(f"TRUNCATE {made.sink.target}")
    return rate


def writer_rate(made: Bench, batches: list[pa.RecordBatch], checkpoint_id: int) -> float:
    """Encode, send, prepare."""
    scope = made.permitted(checkpoint_id)
    committables = []
    rate = timed(lambda: committables.append(made.prepare(scope, 0, *batches)))
    while made.committer.commit(checkpoint_id, committables)[0] is CommitOutcome.RETRY_LATER:
        pass
    assert made.count() == ROWS
    made.query(f"TRUNCATE {made.sink.target}")
    return rate


@pytest.mark.alone
def test_the_writer_keeps_up_with_a_bare_load(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = bench(database, COLUMNS, SCHEMA)
    batches = records()
    raw = max(raw_rate(made, batches) for _ in range(2))
    load = max(writer_rate(made, batches, n) for n in range(2))

    def insert(target: str, plans: object, *, local: bool, max_packet_bytes: int) -> Bulk:
        return Bulk(target, made.sink.plans, local=False, max_packet_bytes=max_packet_bytes)

    monkeypatch.setattr(writer_module, "Bulk", insert)
    inserted = writer_rate(made, batches, 2)
    print(f"rows/s: bare LOAD DATA {raw:,.0f}, writer {load:,.0f} ({load / raw:.2f}), by INSERT {inserted:,.0f}")
    assert load > raw * 0.5
