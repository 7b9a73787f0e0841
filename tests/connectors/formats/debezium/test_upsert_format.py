"""Topics whose values are rows and whose records without a value delete them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.api.decoding import Format
from connectors.formats.ddl import parse_ddl
from connectors.formats.debezium.json_events import JsonEvents
from connectors.formats.debezium.upsert_entry import UpsertEntry
from connectors.formats.debezium.upsert_format import UpsertFormat
from connectors.testing.formats import FormatCompliance
from tests.connectors.formats.debezium.written import connect_field, decode, packed, reasons, wrapped_key
from tests.searches import examples

_ROW: Final = parse_ddl("id BIGINT NOT NULL, name STRING NOT NULL, at TIMESTAMP_NTZ")
FORMAT: Final = UpsertFormat(_ROW, JsonEvents(_ROW))
FIELDS: Final = [
    connect_field("id", "int64"),
    connect_field("name", "string"),
    connect_field("at", "int64", "org.apache.kafka.connect.data.Timestamp"),
]
KEY: Final = b'{"id":7}'


class TestUpsert(FormatCompliance):
    """Values that have all columns."""

    def make_format(self) -> Format:
        row = parse_ddl("n BIGINT NOT NULL, word STRING")
        return UpsertFormat(row, JsonEvents(row))

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        return [packed({"n": n, "word": "w"}) for n in numbers]

    def bad_values(self) -> Sequence[bytes]:
        return [b"", b"{}", b'{"n":"x"}', b"[]", b'{"schema":1,"payload":{}}', b'{"n":1}{"n":2}']


def rows(values: list[bytes | None], keys: list[bytes | None]) -> list[list[Any]]:
    decoded = decode(FORMAT, values, keys)
    assert decoded.bad == ()
    return [list(each.values()) for each in decoded.rows.to_pylist()]


def test_rows_and_deletions() -> None:
    wrapped = wrapped_key(FIELDS, packed({"id": 8, "name": "m", "at": 1}))
    key = wrapped_key(FIELDS[:1], b'{"id":9}')
    values = [packed({"id": 7, "name": "n"}), None, wrapped, None, wrapped_key(FIELDS, b"null")]
    assert rows(values, [KEY, KEY, None, key, key]) == [
        [7, "n", None, False],
        [7, None, None, True],
        [8, "m", datetime(1970, 1, 1, 0, 0, 0, 1_000), False],
        [9, None, None, True],
        [9, None, None, True],
    ]


def test_columns_that_a_value_lacks_are_in_its_key() -> None:
    """As ksqlDB and Flink write them. A value counts before a key."""
    assert rows([b'{"name":"n"}', b'{"id":8,"name":"n"}'], [KEY, KEY]) == [
        [7, "n", None, False],
        [8, "n", None, False],
    ]


@pytest.mark.parametrize(
    ("value", "key", "reason"),
    [
        (None, None, "a deletion, and the record's key has no column of the schema"),
        (None, b'{"other":1}', "a deletion, and the record's key has no column of the schema"),
        (None, b"7", "the record's key: not valid JSON: not a JSON object"),
        (b'{"id":7,"name":"n"}', b'{"id":"x"}', "the record's key: field id: expected number, found string"),
        (b'{"id":7}', KEY, "name is NOT NULL, and null or absent"),
        (b'{"id":"x","name":"n"}', KEY, "field id: expected number, found string"),
        (b'{"id":7,"name":"n","at":1}', KEY, "at: a number, and neither the record nor `types` states its unit"),
    ],
)
def test_bad_records(value: bytes | None, key: bytes | None, reason: str) -> None:
    good = packed({"id": 1, "name": "n"})
    decoded = decode(FORMAT, [good, value, good], [None, key, None])
    assert [each.index for each in decoded.bad] == [1]
    assert reasons(decoded)[0].startswith(reason), reasons(decoded)
    assert decoded.rows.num_rows == 2


texts = st.sampled_from(
    [None, KEY, b'{"id":8,"name":"n"}', b"", b"{}", wrapped_key(FIELDS, KEY), wrapped_key(FIELDS, b"null"), b'{"id":']
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(texts, texts), max_size=8))
def test_a_record_does_not_depend_on_its_neighbours(records: list[tuple[bytes | None, bytes | None]]) -> None:
    whole = decode(FORMAT, [value for _, value in records], [key for key, _ in records])
    bad = {each.index: each.reason for each in whole.bad}
    left = iter(whole.rows.to_pylist())
    for at, (key, value) in enumerate(records):
        alone = decode(FORMAT, [value], [key])
        assert reasons(alone) == ([bad[at]] if at in bad else [])
        assert alone.rows.to_pylist() == ([] if at in bad else [next(left)])


def test_a_spec() -> None:
    written: dict[str, Any] = {"schema": "id BIGINT, at TIMESTAMP_NTZ", "types": {"at": "Timestamp"}}
    entry = UpsertEntry.model_validate({"type": "upsert", **written})
    assert entry.build().schema.names == ["id", "at", "_deleted"]
    for keys, mistake in (
        ({"schema": "_deleted BOOLEAN"}, "column _deleted is added to each row"),
        ({"schema": "id BIGINT", "types": {"id": "Date"}}, "which is read as it is written"),
    ):
        with pytest.raises(ValueError, match=mistake):
            UpsertEntry.model_validate({"type": "upsert", **keys})
