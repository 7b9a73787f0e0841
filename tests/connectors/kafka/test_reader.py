"""Messages become batches: what is left out, put aside or refused of them, and whether each is told of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from connectors.api.decoding import ROW, Decoded, Undecodable
from connectors.formats.ddl import parse_ddl
from connectors.formats.json_values import JsonFormat
from connectors.formats.key_columns import KeyColumns
from connectors.formats.plain import StringFormat
from connectors.kafka import bad_records, reader
from connectors.kafka.columns import METADATA
from connectors.kafka.reader import OnBadRecord
from eos.errors import BadRecordError

BAD = b"\xff"
FORMAT = StringFormat()
PLAIN = pa.schema([*FORMAT.schema, METADATA.field("_offset")])
TIMED = pa.schema([*PLAIN, METADATA.field("_timestamp")])
BEYOND_MS = 2**60  # no database has a time for it


def message(offset: int, value: bytes | None = b"v", ms: int = 1_000, partition: int = 0, key: bytes = b"") -> Message:
    at = (TIMESTAMP_CREATE_TIME, ms)
    return Message(topic="t", partition=partition, offset=offset, key=key, value=value, timestamp=at)


GROUP = [message(5), message(6, BAD), message(7, None), message(8, ms=BEYOND_MS), message(9, b"w")]


def batch(on_bad_record: OnBadRecord, schema: pa.Schema = TIMED) -> tuple[list[int], list[int]]:
    """Offsets of the rows, and how many records were put aside each time."""
    aside: list[int] = []
    (made,) = reader._batches(GROUP, FORMAT, schema, on_bad_record, aside.append)
    return made.column("_offset").to_pylist(), aside


def test_what_is_left_out_is_counted_and_the_others_stay() -> None:
    assert batch("dead-letter") == ([5, 7, 9], [2])
    assert batch("dead-letter", PLAIN) == ([5, 7, 8, 9], [1])


def test_what_is_left_out_is_told_with_its_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bad_records.Skipped] = []
    monkeypatch.setattr(bad_records, "listeners", [told.append])
    assert batch("skip")[0] == [5, 7, 9]
    assert [(each.topic, each.partition, each.offsets) for each in told] == [("t", 0, (6, 8))]


def test_what_a_record_holds_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """In a task, whose log nobody masks or escapes."""
    text = rb"\n2026-11-22 10:00:00 WARNING eos.runner: all is well \u001b[2J\u009b\u2028"
    value = b'{"day": "%s"}' % (text + b"x" * 9_000)
    format_ = JsonFormat(parse_ddl("day DATE"))
    reader._batches([message(6, value)], format_, METADATA, "skip", lambda _: None)
    (said,) = caplog.messages
    assert caplog.records[0].name == "eos.source"
    assert said.startswith("left out 1 bad records: topic t, partition 0, offsets 6; the first: field day: ")
    assert r"\x0a2026-11-22 10:00:00 WARNING eos.runner: all is well \x1b[2J\x9b\u2028xxx" in said
    assert said.isprintable()
    assert len(said) < 2_500
    with pytest.raises(BadRecordError) as failure:
        reader._batches([message(6, value)], format_, METADATA, "fail", lambda _: None)
    assert said.partition("the first: ")[2] in failure.value.message
    assert failure.value.message.isprintable()


@pytest.mark.parametrize(
    ("group", "said"),
    [
        (GROUP[:2], "topic t, partition 0, offset 6: not UTF-8"),
        (GROUP[2:4], "topic t, partition 0, offset 8: its timestamp, .* is not in the years 1 to 9999"),
    ],
)
def test_the_first_bad_record_stops_the_reader(group: Sequence[Message], said: str) -> None:
    with pytest.raises(BadRecordError, match=said):
        reader._batches(group, FORMAT, TIMED, "fail", lambda _: None)


def test_what_a_reader_puts_aside_is_what_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record is a row, or a letter, and never both."""
    monkeypatch.setattr(reader, "messages", lambda *_, **__: iter([GROUP]))
    for schema in (PLAIN, TIMED):
        rows, aside = batch("dead-letter", schema)
        letters = list(reader.bad_records_of(None, None, FORMAT, schema, "in"))  # type: ignore[arg-type]
        found = [offset for each in letters for offset in each.column("offset").to_pylist()]
        assert sorted([*rows, *found]) == [5, 6, 7, 8, 9]
        assert len(found) == sum(aside)
    assert letters[0].column("value").to_pylist() == [BAD, b"v"]


class _Events:
    """A format of keys and values: `row` is a row of its key, `omitted` is none, and anything else is bad."""

    schema = FORMAT.schema

    def decode(self, values: pa.Array) -> Decoded:
        raise AssertionError("the records have keys")

    def decode_records(self, keys: pa.Array, values: pa.Array) -> Decoded:
        kinds = values.to_pylist()
        rows = [key.decode() for key, kind in zip(keys.to_pylist(), kinds, strict=True) if kind == b"row"]
        bad = [at for at, kind in enumerate(kinds) if kind not in (b"row", b"omitted")]
        omitted = tuple(at for at, kind in enumerate(kinds) if kind == b"omitted")
        batch = pa.record_batch([pa.array(rows, pa.string())], schema=self.schema)
        return Decoded(batch, tuple(Undecodable(at, "bad") for at in bad), omitted=omitted)


EVENTS = [
    message(5, b"omitted"),
    message(6, b"row", key=b"six"),
    message(7, b"omitted", BEYOND_MS),
    message(8, b"other"),
    message(9, b"row", BEYOND_MS, key=b"nine"),
    message(10, b"row", key=b"ten"),
]


def test_an_omitted_record_is_neither_a_row_nor_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where a column cannot hold its metadata. Rows stay beside the metadata of their own records."""
    monkeypatch.setattr(reader, "messages", lambda *_, **__: iter([EVENTS]))
    for schema, offsets, letters in ((PLAIN, [6, 9, 10], [8]), (TIMED, [6, 10], [8, 9])):
        aside: list[int] = []
        (made,) = reader._batches(EVENTS, _Events(), schema, "dead-letter", aside.append)
        names = {6: "six", 9: "nine", 10: "ten"}
        assert made.column("_offset").to_pylist() == offsets
        assert made.column("value").to_pylist() == [names[offset] for offset in offsets]
        found = list(reader.bad_records_of(None, None, _Events(), schema, "in"))  # type: ignore[arg-type]
        assert [offset for each in found for offset in each.column("offset").to_pylist()] == letters
        assert aside == [len(letters)]


KEYED = KeyColumns(FORMAT, JsonFormat(parse_ddl("id INT NOT NULL")), "key_")
KEYED_GROUP = [
    message(5, key=b'{"id": 5}'),
    message(6, key=b"\x1b{"),
    message(7, BAD, key=b'{"id": 7}'),
    message(8, key=b'{"id": 8}'),
]


def test_a_key_that_does_not_decode_is_shown_beside_the_value() -> None:
    with pytest.raises(BadRecordError) as failure:
        reader._batches(KEYED_GROUP, KEYED, PLAIN, "fail", lambda _: None)
    assert "offset 6: the record's key: " in failure.value.message
    assert failure.value.message.endswith(r"; the key: '\x1b{'; the value: 'v'")
    with pytest.raises(BadRecordError) as failure:
        reader._batches(KEYED_GROUP[2:], KEYED, PLAIN, "fail", lambda _: None)
    assert "the key: " not in failure.value.message


def test_r4_a_key_is_judged_also_where_no_step_reads_its_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is added later changes neither the rows nor the dead letters of a checkpoint that is repeated."""
    monkeypatch.setattr(reader, "messages", lambda *_, **__: iter([KEYED_GROUP]))
    whole = pa.schema([*KEYED.schema, *METADATA])
    for names in (["value", "_offset"], ["key_id", "_offset"], ["_offset"], whole.names):
        schema = pa.schema([field for field in whole if field.name in names])
        (made,) = reader._batches(KEYED_GROUP, KEYED, schema, "dead-letter", lambda _: None)
        assert made.schema.names == schema.names
        assert made.column("_offset").to_pylist() == [5, 8]
        letters = list(reader.bad_records_of(None, None, KEYED, schema, "in"))  # type: ignore[arg-type]
        assert [offset for each in letters for offset in each.column("offset").to_pylist()] == [6, 7]
        assert letters[0].column("key").to_pylist() == [b"\x1b{", b'{"id": 7}']


def test_a_batch_of_omitted_records_has_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    group = [message(5, b"omitted"), message(6, b"omitted")]
    monkeypatch.setattr(reader, "messages", lambda *_, **__: iter([group]))
    assert list(reader.read_ranges(None, [], _Events(), TIMED, "fail")) == []  # type: ignore[arg-type]
    with pytest.raises(BadRecordError, match="offset 8: bad"):
        reader._batches(EVENTS, _Events(), TIMED, "fail", lambda _: None)


class _Letters:
    """A format with a row for each byte of a value, in order. `bad` is bad, and an empty value is omitted."""

    schema = pa.schema([("letter", pa.string()), (ROW, pa.int32())])

    def decode(self, values: pa.Array) -> Decoded:
        kinds = values.to_pylist()
        found = [(at, kind) for at, kind in enumerate(kinds) if kind not in (b"bad", b"")]
        letters = [(at, row, chr(byte)) for at, kind in found for row, byte in enumerate(kind)]
        columns = [
            pa.array([each[2] for each in letters], pa.string()),
            pa.array([each[1] for each in letters], pa.int32()),
        ]
        bad = tuple(Undecodable(at, "bad") for at, kind in enumerate(kinds) if kind == b"bad")
        omitted = tuple(at for at, kind in enumerate(kinds) if kind == b"")
        records = pa.array([each[0] for each in letters], pa.int64())
        return Decoded(pa.record_batch(columns, schema=self.schema), bad, omitted=omitted, records=records)


LETTERS = [
    message(5, b"ab"),
    message(6, b""),
    message(7, b"bad"),
    message(8, b"cde", BEYOND_MS),
    message(9, b"f", key=b"nine"),
    message(10, b"gh"),
]


def test_each_row_of_a_record_has_its_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record whose metadata no column holds is left out with all its rows, and counts once."""
    monkeypatch.setattr(reader, "messages", lambda *_, **__: iter([LETTERS]))
    plain = pa.schema([*_Letters.schema, METADATA.field("_offset")])
    timed = pa.schema([METADATA.field("_timestamp"), *plain, METADATA.field("_key")])
    for schema, letters, offsets, bad in (
        (plain, "abcdefgh", [5, 5, 8, 8, 8, 9, 10, 10], [7]),
        (timed, "abfgh", [5, 5, 9, 10, 10], [7, 8]),
    ):
        aside: list[int] = []
        (made,) = reader._batches(LETTERS, _Letters(), schema, "dead-letter", aside.append)
        assert made.schema.equals(schema)
        assert "".join(made.column("letter").to_pylist()) == letters
        assert made.column("_offset").to_pylist() == offsets
        found = list(reader.bad_records_of(None, None, _Letters(), schema, "in"))  # type: ignore[arg-type]
        assert [offset for each in found for offset in each.column("offset").to_pylist()] == bad
        assert aside == [len(bad)]
    assert made.column("_key").to_pylist() == [b"", b"", b"nine", b"", b""]
    with pytest.raises(BadRecordError, match="offset 8: its timestamp"):
        reader._batches(LETTERS[3:], _Letters(), timed, "fail", lambda _: None)


def test_many_rows_of_one_record_are_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MAX_ROWS", 4)
    monkeypatch.setattr(reader, "messages", lambda *_, **__: iter([[message(5, b"abcdefghij"), message(6, b"k")]]))
    schema = pa.schema([*_Letters.schema, METADATA.field("_offset")])
    made = list(reader.read_ranges(None, [], _Letters(), schema, "fail"))  # type: ignore[arg-type]
    assert [each.num_rows for each in made] == [4, 4, 3]
    assert [row["_offset"] for each in made for row in each.to_pylist()] == [5] * 10 + [6]
    assert [row[ROW] for each in made for row in each.to_pylist()] == [*range(10), 0]


def test_groups_are_of_one_split_and_hold_every_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MAX_ROWS", 4)
    monkeypatch.setattr(reader, "_MAX_BYTES", 500)

    def chunks() -> Iterator[list[Message]]:
        yield [message(0), message(1)]
        yield [message(2), message(3)]
        yield [message(4)]
        yield [message(0, partition=1)]
        yield [message(n, b"x" * 200) for n in range(5, 10)]
        yield [message(n, None, key=b"k" * 200) for n in range(10, 15)]

    groups = list(reader._gathered(chunks()))
    assert [(m.partition(), m.offset()) for group in groups for m in group] == [
        *((0, n) for n in range(5)),
        (1, 0),
        *((0, n) for n in range(5, 15)),
    ]
    assert all(len({m.partition() for m in group}) == 1 for group in groups)
    sizes = [sum(len(m.value() or b"") + len(m.key() or b"") for m in group) for group in groups]
    assert all(len(group) <= 4 for group in groups)
    assert max(sizes) <= 500
