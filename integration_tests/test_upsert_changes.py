"""`commit: upsert` from topics of changes, as docs/reference/sinks.md has them: rows of a key take each other's places,
and deletions are Debezium's or records without a value."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from integration_tests.harness.kills import kill_at
from integration_tests.harness.pipeline import PARTITIONS, Pipeline

pytestmark = pytest.mark.in_turns

_DOCS: Final = Path(__file__).parents[1] / "docs" / "reference" / "sinks.md"
_KEYS: Final = 40

Changes = list[tuple[int, str | None]]
"""Keys and their new names, in order; None: the key goes."""

CHANGES: Final[Changes] = [
    *((key, f"first of {key}") for key in range(_KEYS)),
    *((key, f"second of {key}") for key in range(0, _KEYS, 2)),
    *((key, None) for key in range(0, _KEYS, 3)),
    *((key, f"again {key}") for key in range(0, _KEYS, 6)),
]


def statement(of: str) -> str:
    """That block of the docs which speaks of this."""
    (found,) = [each for each in re.findall(r"```sql\n(.*?)\n```", _DOCS.read_text(), re.DOTALL) if of in each]
    return str(found)


def rows(changes: Changes) -> list[tuple[int, str]]:
    return sorted((key, name) for key, name in dict(changes).items() if name is not None)


def produce(pipeline: Pipeline, records: list[tuple[int, Any]]) -> None:
    """Each key always to the same partition."""
    producer = Producer({"bootstrap.servers": pipeline.source["bootstrap_servers"]})
    for key, value in records:
        content = None if value is None else json.dumps(value).encode()
        producer.produce(pipeline.workload.topic, content, str(key).encode(), key % PARTITIONS)
    assert producer.flush(60) == 0


@pytest.fixture
def changes(pipeline: Pipeline) -> Pipeline:
    """Into a table of keys and names, some changes at a time, so that keys change within a checkpoint and after it."""
    (step,), (sink,) = pipeline.spec["transforms"], pipeline.spec["sinks"]
    pipeline.table.execute(f"DROP TABLE {pipeline.table.name}")
    pipeline.table.execute(f"CREATE TABLE {pipeline.table.name} (id BIGINT PRIMARY KEY, name VARCHAR(40))")
    pipeline.spec["checkpoint"]["max_records_per_checkpoint"] = len(CHANGES) // 4
    pipeline.source["name"] = "changes"
    step["name"] = sink["from"] = "merged"
    sink.update(commit="upsert", key=["id"], deleted="gone")
    return pipeline


def found(pipeline: Pipeline) -> list[tuple[Any, ...]]:
    return sorted(pipeline.table.execute(f"SELECT id, name FROM {pipeline.table.name}"))


@pytest.mark.timeout(300)
def test_what_debezium_writes(changes: Pipeline) -> None:
    changes.source["format"] = {"type": "debezium", "schema": "id BIGINT NOT NULL, name STRING"}
    changes.spec["transforms"] = []
    changes.spec["sinks"][0] |= {"from": "changes", "deleted": "_deleted"}
    there: set[int] = set()
    records: list[tuple[int, Any]] = []
    for key, name in CHANGES:
        image = {"id": key, "name": name}
        if name is None:
            records += [(key, {"op": "d", "before": image, "after": None}), (key, None)]
        else:
            records.append((key, {"op": "u" if key in there else "c", "before": None, "after": image}))
        there.add(key)
    produce(changes, records)
    changes.catch_up()
    assert found(changes) == rows(CHANGES)
    assert len(found(changes)) == _KEYS - 7


@pytest.mark.timeout(300)
def test_keys_that_move_between_partitions(changes: Pipeline) -> None:
    """Older events of each key are in a partition that is read later; a kill, and the newest of each has won."""
    table = changes.table
    table.execute(f"ALTER TABLE {table.name} ADD _position VARCHAR(80), ADD removed_at TIMESTAMP(6) NULL")
    changes.source["format"] = {"type": "debezium", "schema": "id BIGINT NOT NULL, name STRING"}
    changes.spec["transforms"][0]["sql"] = (
        "SELECT id, name, _position, CASE WHEN _deleted THEN _source_ts END AS removed_at, _partition, _offset"
        " FROM changes"
    )
    del changes.spec["sinks"][0]["deleted"]
    changes.spec["sinks"][0] |= {"order_by": "_position", "deleted_at": "removed_at"}
    events: list[tuple[int, int, Any]] = []
    for number, (key, name) in enumerate(CHANGES):
        source = {
            "connector": "mysql",
            "file": "binlog.000007",
            "pos": 90 + number,
            "row": 0,
            "ts_ms": 1_800_000_000_000,
        }
        image = {"id": key, "name": name}
        before, after = (image, None) if name is None else (None, image)
        events.append(
            (number, key, {"op": "d" if name is None else "u", "before": before, "after": after, "source": source})
        )
    newest = {key: number for number, key, _ in events}
    producer = Producer({"bootstrap.servers": changes.source["bootstrap_servers"]})
    for is_newest in (True, False):  # records of a key: first its newest event, then the others in another partition
        for number, key, event in events:
            if (newest[key] == number) == is_newest:
                content = json.dumps(event).encode()
                producer.produce(changes.workload.topic, content, str(key).encode(), (key + is_newest) % PARTITIONS)
        assert producer.flush(60) == 0
    kill_at(changes, "before-decide@1", "after-decide@2")
    changes.catch_up()
    rows_of = table.execute(f"SELECT id, name, removed_at IS NULL FROM {table.name}")
    assert sorted((key, name) for key, name, is_there in rows_of if is_there) == rows(CHANGES)
    assert len(rows_of) == _KEYS


@pytest.mark.timeout(300)
def test_records_with_a_key_and_without_a_value(changes: Pipeline) -> None:
    changes.source["format"] = {"type": "json", "schema": "name STRING"}
    changes.spec["transforms"][0]["sql"] = statement("_key")
    produce(changes, [(key, None if name is None else {"name": name}) for key, name in CHANGES])
    changes.catch_up()
    assert found(changes) == rows(CHANGES)
    assert len(found(changes)) == _KEYS - 7
