"""Positions sort in the order of the database's log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.connectors.formats.debezium.written import column, event, json_format

FORMAT: Final = json_format("id INT")

ORDERED: Final[dict[str, list[dict[str, Any]]]] = {
    "mysql": [
        {"file": "binlog.000009", "pos": 10_000, "row": 0},
        {"file": "binlog.000010", "pos": 9, "row": None},
        {"file": "binlog.000010", "pos": 9, "row": 1},
        {"file": "binlog.000010", "pos": 9, "row": 10},
        {"file": "binlog.000010", "pos": 100, "row": 0},
        {"file": "binlog.999999", "pos": 100, "row": 0},
        {"file": "binlog.1000000", "pos": 4, "row": 0},
    ],
    "postgresql": [
        {"lsn": 90, "sequence": '[null,"90"]'},
        {"lsn": 200, "sequence": '["100","200"]'},
        {"lsn": 150, "sequence": '["1000","150"]'},  # of a transaction that began earlier and committed later
        {"lsn": 160, "sequence": '["1000","160"]'},
    ],
    "old postgresql": [{"lsn": 90}, {"lsn": 1000}],
    "sqlserver": [
        {"commit_lsn": "00000025:00000d98:00a2", "change_lsn": None, "event_serial_no": None},
        {"commit_lsn": "00000025:00000da8:0003", "change_lsn": "00000025:00000d98:00b1", "event_serial_no": 1},
        {"commit_lsn": "00000025:00000da8:0003", "change_lsn": "00000025:00000d98:00b1", "event_serial_no": 2},
        {"commit_lsn": "00000025:00000da8:0003", "change_lsn": "00000025:00000d98:00b2", "event_serial_no": 1},
    ],
    "oracle": [
        {"scn": "9", "commit_scn": "100"},
        {"scn": "20", "commit_scn": "100"},
        {"scn": "7", "commit_scn": "1000"},
    ],
    "mongodb": [{"ts_ms": 9_000, "ord": 10}, {"ts_ms": 10_000, "ord": 2}, {"ts_ms": 10_000, "ord": 10}],
}


@pytest.mark.parametrize("database", ORDERED)
def test_positions_sort_as_the_log(database: str) -> None:
    found = column(FORMAT, "_position", [event("c", None, {"id": 1}, source=each) for each in ORDERED[database]])
    assert found == sorted(set(found))


def test_events_of_several_databases_in_one_batch() -> None:
    sources = [each[0] for each in ORDERED.values()] + [{}, None, {"lsn": None, "sequence": "what"}]
    values = [event("c", None, {"id": 1}, source=each) for each in sources]
    assert column(FORMAT, "_position", values) == [
        *(column(FORMAT, "_position", [each])[0] for each in values[:-3]),
        None,
        None,
        None,
    ]


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**31)), min_size=2))
def test_numbers_of_any_size(places: list[tuple[int, int]]) -> None:
    values = [event("c", None, {"id": 1}, source={"file": "b.1", "pos": pos, "row": row}) for pos, row in places]
    found = dict(zip(column(FORMAT, "_position", values), places, strict=True))
    assert [found[each] for each in sorted(found)] == sorted(set(places))


def test_the_time_of_the_change() -> None:
    sources = [{"ts_ms": 1_500}, {"ts_ms": 1_500, "ts_us": 1_500_001}, {"ts_ms": None}, None]
    found = column(FORMAT, "_source_ts", [event("c", None, {"id": 1}, source=each) for each in sources])
    second = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert found == [second.replace(microsecond=500_000), second.replace(microsecond=500_001), None, None]
