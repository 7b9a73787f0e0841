"""Rows that a table refuses when the log is applied, after the decision: each is one dead letter beside the table."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from integration_tests.harness.kills import kill_at
from integration_tests.harness.oracle import PostgresTable, SinkTable
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_REPEATED = 100
_COLUMNS = "id BIGINT NOT NULL, word VARCHAR(40), payload VARCHAR(80), PRIMARY KEY (id)"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", ["mysql", "postgresql"])
def test_killed_while_slots_apply_what_the_tables_refuse(
    pipeline: Pipeline, database: str, postgres_database: str, kind: str
) -> None:
    """A key that is there already, in a table that rows are added to by two slots; a constraint, in one by upsert."""
    url, table = (database, SinkTable) if kind == "mysql" else (postgres_database, PostgresTable)
    added, merged, letters = table(url, "added"), table(url, "merged"), table(url, "letters")
    added.execute(f"CREATE TABLE added ({_COLUMNS})")
    merged.execute(f"CREATE TABLE merged ({_COLUMNS}, CHECK (mod(id, 100) <> 3))")
    place: dict[str, Any] = {"connector": kind, "url": url}
    kept = "SELECT id, word, payload, _partition, _offset FROM incoming"
    pipeline.spec["transforms"] = [{"name": "rows", "sql": kept}]
    pipeline.spec["sinks"] = [
        {"name": "added", "from": "rows", "table": "added", "commit": "write-ahead-log", **place},
        {"name": "merged", "from": "rows", "table": "merged", "commit": "upsert", "key": ["id"], **place},
    ]
    pipeline.spec["dead_letter"] = {"table": "letters", "create": "if-missing", "commit": "two-phase", **place}
    pipeline.spec["restart"] = {"strategy": "none"}
    pipeline.workload.produce(2 * CHECKPOINT_RECORDS)
    pipeline.workload.repeat(_REPEATED)
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    kill_at(pipeline, "applying@0", "between-commits@1", "applying@2")
    pipeline.catch_up()
    expected = pipeline.workload.expected
    refused = {row[0] for row in expected if row[0] % 100 == 3}
    assert len(refused) == 15
    assert added.rows() == expected
    assert merged.rows() == Counter(row for row in expected if row[0] not in refused)
    told: dict[str, Counter[int]] = {"added": Counter(), "merged": Counter()}
    for sink, value, error, checkpoint in letters.execute("SELECT sink, value, error, checkpoint_id FROM letters"):
        row = json.loads(bytes(value))
        assert (int(row["id"]), row["word"], row["payload"]) in expected
        assert error
        assert checkpoint <= pipeline.head.completed
        told[sink][int(row["id"])] += 1
    assert told["added"] == Counter(range(_REPEATED))
    assert told["merged"] == Counter([*refused, 3])
    assert letters.prepared(pipeline.head.incarnation) == []
