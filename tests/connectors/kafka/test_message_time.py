"""The time of a message: a value that Kafka would shorten is refused, and any other one arrives as it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from connectors.kafka.settings import Connection
from connectors.kafka.sink.layout import Layout
from connectors.kafka.sink.messages import Messages
from connectors.kafka.sink.target import Facts, Topics
from eos.errors import BadRowError

_WHOLE = datetime(2026, 1, 31, 12, 0, 0, 123_000, tzinfo=UTC)
_TYPES = [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.timestamp("ms", "UTC")]


def _stamps(values: list[datetime | None], kind: pa.DataType) -> list[int | None]:
    facts = Facts(partitions=1, max_bytes=1_000_000, replication=1)
    topics = Topics(Connection("127.0.0.1:1", "eos"), facts, "eos-markers")
    naive = [each if each is None or kind.tz else each.replace(tzinfo=None) for each in values]
    batch = pa.record_batch({"n": pa.array(range(len(values)), pa.int64()), "at": pa.array(naive, kind)})
    found: list[int | None] = (
        Messages(Layout("t", timestamp="at"), batch.schema, topics).convert(batch, 1).column("timestamp").to_pylist()
    )
    return found


@pytest.mark.parametrize("kind", _TYPES, ids=str)
def test_whole_milliseconds_arrive_as_they_are(kind: pa.DataType) -> None:
    later = _WHOLE + timedelta(milliseconds=1)
    first_ms = 1_769_860_800_123
    assert _stamps([_WHOLE, None, later], kind) == [first_ms, None, first_ms + 1]


@pytest.mark.parametrize("kind", _TYPES[:3], ids=str)
@pytest.mark.parametrize("micros", [1, 999])
def test_a_time_with_microseconds_is_a_bad_row(kind: pa.DataType, micros: int) -> None:
    with pytest.raises(BadRowError, match=r"row 3, column 'at': a message's time has milliseconds"):
        _stamps([_WHOLE, None, _WHOLE + timedelta(microseconds=micros)], kind)


def test_the_zone_of_a_column_changes_no_moment() -> None:
    values: list[datetime | None] = [_WHOLE.astimezone(timezone(timedelta(hours=2)))]
    assert _stamps(values, pa.timestamp("us", "Europe/Berlin")) == _stamps([_WHOLE], pa.timestamp("us", "UTC"))
