"""Messages whose records bring their own schemas become one batch for each table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from connectors.api.decoding import Decoded, DecodedTables
from connectors.api.table_rows import table_of
from connectors.formats.plain import StringFormat
from connectors.formats.tables import TablesOutcome
from connectors.kafka import reader
from connectors.kafka.columns import METADATA
from connectors.kafka.reader import OnBadRecord
from eos.errors import BadRecordError

OWN = pa.schema([pa.field("_op", pa.string())])
SCHEMA = pa.schema([*OWN, METADATA.field("_offset"), METADATA.field("_timestamp")])
BEYOND_MS = 2**60  # no database has a time for it


@dataclass(frozen=True)
class _Tables:
    """The value of a record is the number of its table; `bad` is bad, and no value is omitted."""

    schema: pa.Schema = OWN

    def decode(self, values: pa.Array) -> Decoded:
        raise AssertionError("records have tables")

    def decode_tables(self, keys: pa.Array, values: pa.Array) -> DecodedTables:
        outcome = TablesOutcome(values)
        outcome.omit_tombstones()
        outcome.schemas["schema 1"] = "x"
        given = values.drop_null()
        known = keys.filter(values.is_valid())
        names = [each.decode() for each in given.to_pylist()]
        for name in sorted(set(names)):
            places = pa.array([at for at, each in enumerate(names) if each == name], pa.int64()).to_numpy()
            if name == "bad":
                outcome.reject(places, "as its value shows")
                continue
            rows = pa.record_batch({f"of_{name}": known.take(pa.array(places)), "_op": pa.array(["c"] * len(places))})
            outcome.add(name, (f"of_{name}",), places, Decoded(rows))
        return outcome.decoded()


def _message(offset: int, value: bytes | None, ms: int = 1_000) -> Message:
    at = (TIMESTAMP_CREATE_TIME, ms)
    return Message(topic="t", partition=0, offset=offset, key=b"k%d" % offset, value=value, timestamp=at)


GROUP = [
    _message(5, b"a"),
    _message(6, b"b"),
    _message(7, b"bad"),
    _message(8, None, BEYOND_MS),
    _message(9, b"a", BEYOND_MS),
    _message(10, b"b"),
    _message(11, b"a"),
    _message(12, b"bad", BEYOND_MS),
]


def _read(
    monkeypatch: pytest.MonkeyPatch,
    schema: pa.Schema,
    on_bad_record: OnBadRecord,
    on_bad_records: Callable[[int], None] = lambda _: None,
    on_schemas: Callable[[Mapping[str, str]], None] = lambda _: None,
    group: Sequence[Message] = GROUP,
) -> list[pa.RecordBatch]:
    monkeypatch.setattr(reader, "messages", lambda *_, **__: iter([group]))
    read: Any = reader.read_ranges
    return list(read(None, [], _Tables(), schema, on_bad_record, on_bad_records=on_bad_records, on_schemas=on_schemas))


def test_a_batch_is_of_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    aside: list[int] = []
    schemas: list[Mapping[str, str]] = []
    found = _read(monkeypatch, SCHEMA, "dead-letter", aside.append, schemas.append)
    assert [table_of(each.schema) for each in found] == [("a", ("of_a",)), ("b", ("of_b",))]
    assert [each.schema.names for each in found] == [[f"of_{name}", "_op", "_offset", "_timestamp"] for name in "ab"]
    assert found[0].column("_offset").to_pylist() == [5, 11]
    assert found[0].column("of_a").to_pylist() == [b"k5", b"k11"]
    assert found[1].column("_offset").to_pylist() == [6, 10]
    assert found[1].column("of_b").to_pylist() == [b"k6", b"k10"]
    assert (aside, schemas) == ([3], [{"schema 1": "x"}])
    for each in found:
        each.validate(full=True)


def test_metadata_that_is_not_wanted_makes_no_record_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    aside: list[int] = []
    found = _read(monkeypatch, pa.schema([*OWN, METADATA.field("_offset")]), "skip", aside.append)
    assert [each.column("_offset").to_pylist() for each in found] == [[5, 9, 11], [6, 10]]
    assert aside == [2]
    found = _read(monkeypatch, OWN, "skip")
    assert [each.schema.names for each in found] == [["of_a", "_op"], ["of_b", "_op"]]


def test_each_record_is_a_row_or_a_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    for schema, letters in ((SCHEMA, [7, 9, 12]), (OWN, [7, 12])):
        monkeypatch.setattr(reader, "messages", lambda *_, **__: iter([GROUP]))
        bad: Any = reader.bad_records_of
        found = list(bad(None, None, _Tables(), schema, "in"))
        assert [offset for each in found for offset in each.column("offset").to_pylist()] == letters
        aside: list[int] = []
        rows = _read(monkeypatch, schema, "dead-letter", aside.append)
        assert sum(each.num_rows for each in rows) + sum(aside) == len(GROUP) - 1
        assert sum(aside) == len(letters)


def test_a_bad_record_is_named_by_its_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadRecordError, match="offset 7: as its value shows"):
        _read(monkeypatch, SCHEMA, "fail")
    with pytest.raises(BadRecordError, match="offset 9: its timestamp") as found:
        _read(monkeypatch, SCHEMA, "fail", group=[GROUP[1], GROUP[4]])
    assert "let no step use _timestamp" in (found.value.remedy or "")


def test_a_batch_of_a_source_with_a_schema_names_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "messages", lambda *_, **__: iter([GROUP[:2]]))
    read: Any = reader.read_ranges
    (found,) = read(None, [], StringFormat(), pa.schema([*StringFormat().schema]), "fail")
    assert not found.schema.metadata
