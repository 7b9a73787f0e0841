"""Dead letters: what the spec says of them, how a source marks and tells them, and which counts are believed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from hypothesis import given
from hypothesis import strategies as st

from connectors.api.mistakes import SpecMistakesError
from connectors.dead_letter_names import COLUMNS, MESSAGE_HEADERS
from connectors.dead_letters import (
    PLACE,
    RECORD,
    SCHEMA,
    DeadLetter,
    add_checkpoint_id,
    append_row,
    decode_headers,
    encode_headers,
    encode_refused_row,
    printable,
)
from connectors.formats.ddl import parse_ddl
from connectors.kafka.bad_records import letters
from connectors.kafka.dead_letters import Replay
from connectors.kafka.dead_letters import _letters as in_topic
from connectors.kafka.settings import Connection
from connectors.kafka.sink.layout import Layout
from connectors.kafka.sink.messages import Messages
from connectors.kafka.sink.target import Facts, Topics
from connectors.registry import build_sink, build_source
from connectors.row_bisector import RowBisector, decode_dead_letters
from connectors.spec import Spec, guarantees, load_spec
from eos.errors import (
    BadRecordError,
    BadRowError,
    IdentityError,
    PrepareError,
    SinkUnavailableError,
    SpecError,
    TooManyBadRowsError,
)
from spark_jobs.adapters.kafka_format import source_of
from spark_jobs.batch.dead_letters import DeadLetters, Found, Read, _ReadAgain
from spark_jobs.cli import run_command_line
from spark_jobs.operations.dead_letters import resend
from spark_jobs.query.marks import read_and_mark, schemas_in, with_mark
from spark_jobs.session.failures import TOKEN, CarriedError, translate
from tests.twophase.test_verify import HEAD, NEWEST, SINK, SPARK
from tests.twophase_values import committable, scope
from twophase.values import OffsetRange, SinkState
from twophase.verify import verify

TOPIC = "dead_letter: {connector: kafka, bootstrap_servers: 'k:1', topic: bad%s}\n"
SPEC = """\
pipeline: p
checkpoint: {location: state}
sources: [{name: s, connector: kafka, bootstrap_servers: 'k:1', topics: [t], format: {type: string}%s}]
sinks: [{name: out, from: s, connector: sqlite, path: x.db, table: t, commit: write-ahead-log}]
"""


def load(folder: Path, text: str) -> Spec:
    path = folder / "spec.yaml"
    path.write_text(text)
    return load_spec(path, {})


@pytest.mark.parametrize(
    ("source", "letter", "behaves"),
    [
        ("", "", "fail"),
        ("", TOPIC % "", "dead-letter"),
        (", on_bad_record: fail", TOPIC % "", "fail"),
        (", on_bad_record: skip", TOPIC % "", "skip"),
        (", on_bad_record: dead-letter", TOPIC % "", "dead-letter"),
    ],
)
def test_what_a_bad_record_does(tmp_path: Path, source: str, letter: str, behaves: str) -> None:
    spec = load(tmp_path, SPEC % source + letter)
    built = cast(Any, build_source(spec.sources[0]))
    assert (built.on_bad_record, built.rejects_bad_records) == (behaves, behaves == "dead-letter")
    assert [entry.name for entry in spec.outputs] == ["out", *(["dead_letter"] if letter else [])]


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        (SPEC % ", on_bad_record: dead-letter", "sources[0].on_bad_record", "there is no `dead_letter`"),
        (SPEC % "" + TOPIC.replace("bad%s", "t"), "dead_letter.topic", "the source 's' reads this topic"),
        (
            SPEC % "" + TOPIC % ", format: json",
            "dead_letter.format",
            "the key, the value and the headers of its record",
        ),
        (SPEC % "" + TOPIC % ", key: [id]", "dead_letter.key", "the key, the value and the headers of its record"),
        (SPEC % "" + TOPIC % ", from: s", "dead_letter.from", "come from every source"),
        (SPEC % "" + TOPIC % ", name: OUT", "dead_letter.name", "the name 'OUT' is taken by the sink 'out'"),
        (
            SPEC % "" + "dead_letter: {connector: sqlite, path: x.db, table: t, commit: write-ahead-log}\n",
            "dead_letter",
            "the sink 'out' writes there, too",
        ),
        (
            SPEC % "" + "dead_letter: {connector: sqlite, path: x.db, table: b, commit: upsert, key: [offset]}\n",
            "dead_letter.commit",
            "no key to be merged by",
        ),
    ],
)
def test_mistakes(tmp_path: Path, text: str, path: str, said: str) -> None:
    with pytest.raises(SpecMistakesError) as caught:
        load(tmp_path, text)
    assert [m.path for m in caught.value.mistakes] == [path]
    assert said in caught.value.mistakes[0].found


def test_a_job_of_ones_own_has_no_records_to_put_aside(tmp_path: Path) -> None:
    own = "pipeline: p\ncheckpoint: {location: s}\nsinks: [{name: o, connector: sqlite, path: x, table: t, "
    with pytest.raises(SpecMistakesError, match="there are no sources whose records"):
        load(tmp_path, own + "commit: write-ahead-log}]\n" + TOPIC % "")
    options = {"bootstrap_servers": "k:1", "topics": "t", "format": "string", "on_bad_record": "dead-letter"}
    with pytest.raises(SpecError, match="needs a pipeline of a spec"):
        source_of(options)


def test_what_is_promised(tmp_path: Path) -> None:
    own, letter = guarantees(load(tmp_path, SPEC % "" + TOPIC % ""))
    assert any("goes to dead_letter instead, exactly once" in limit for limit in own.limits)
    assert letter.promise.startswith("exactly-once")
    assert any("more than 1,000 dead letters in a checkpoint stop" in limit for limit in letter.limits)


def test_what_is_promised_at_least_once(tmp_path: Path) -> None:
    text = SPEC.replace("location: state", "location: state, mode: at-least-once") % "" + TOPIC % ""
    own, letter = guarantees(load(tmp_path, text))
    for words in (
        "goes to dead_letter instead, at least once",
        "a row that it refuses goes to dead_letter, at least once",
    ):
        assert any(words in limit for limit in own.limits)
    assert letter.promise.startswith("at-least-once")


def test_one_list_of_names() -> None:
    assert tuple(SCHEMA.names) == COLUMNS
    assert set(MESSAGE_HEADERS.values()) | {"key", "value", "headers"} == set(COLUMNS)


@given(st.lists(st.tuples(st.text(), st.none() | st.binary())))
def test_headers_come_back_as_they_were(headers: list[tuple[str, bytes | None]]) -> None:
    assert decode_headers(encode_headers(headers)) == headers


def _message(offset: int, key: bytes | None, value: bytes | None, headers: Any) -> Message:
    """As the client gives one."""
    at = (TIMESTAMP_CREATE_TIME, 1_700_000_000_123)
    return Message(topic="t", partition=3, offset=offset, key=key, value=value, headers=headers, timestamp=at)


_HEADERS = [("a", b"1"), ("a", None), ("b", b"\xff")]


def _letters() -> pa.RecordBatch:
    found = [_message(7, b"k\xff", b"\xff{", _HEADERS), _message(9, None, None, None)]
    return letters("orders", found, {0: "not UTF-8", 1: "is null"})


def test_a_record_is_whole_in_its_letter() -> None:
    first, second = _letters().to_pylist()
    assert {name: first[name] for name in ("source", "topic", "partition", "offset", "error")} == {
        "source": "orders",
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "error": "not UTF-8",
    }
    assert (first["key"], first["value"], decode_headers(first["headers"])) == (b"k\xff", b"\xff{", _HEADERS)
    assert first["timestamp"] == datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
    assert (second["offset"], second["key"], second["value"], second["headers"]) == (9, None, None, None)


@pytest.mark.parametrize(
    ("ms", "year"),
    [
        (1_700_000_000_123_456_789, None),  # of a producer that counts nanoseconds
        (1_700_000_000_123_456, None),  # microseconds: Arrow holds it, MySQL does not
        (253_402_300_800_000, None),
        (253_402_300_799_999, 9999),
        (-62_135_596_800_000, 1),
        (-62_135_596_800_001, None),
        (-(2**63), None),
    ],
)
def test_a_time_that_no_sink_takes_is_told_in_the_error(ms: int, year: int | None) -> None:
    odd = Message(topic="t", partition=3, offset=8, value=b"{", timestamp=(TIMESTAMP_CREATE_TIME, ms))
    found = letters("orders", [_message(7, None, b"{", None), odd], {0: "not JSON", 1: "not JSON"}).to_pylist()
    assert [each["timestamp"] and each["timestamp"].year for each in found] == [2023, year]
    more = "" if year else f"; its timestamp, {ms} ms since 1970, is not in the years 1 to 9999"
    assert [each["error"] for each in found] == ["not JSON", f"not JSON{more}"]


def test_a_record_is_known_by_what_it_is_however_its_letter_is_kept() -> None:
    """A topic that was made again has other records at the same places; a table says the time without a zone."""
    letter = DeadLetter("s", None, "t", 0, 17, "2023-11-14T22:13:20.123000Z", b"k", b"{", [], "bad", 3)
    same = ("2023-11-14T22:13:20.123000", "2023-11-14 22:13:20.123", "2023-11-15T00:13:20.123+02:00")
    assert {replace(letter, timestamp=each, checkpoint_id=9).record for each in same} == {letter.record}
    others = [replace(letter, timestamp=each) for each in ("2023-11-14T22:13:20.124Z", None, "no time")]
    others += [replace(letter, key=each) for each in (None, b"", b"k{")]
    others += [replace(letter, value=each) for each in (None, b"", b"[")]
    assert len({each.record for each in [letter, *others]}) == 10
    assert {each.place for each in others} == {letter.place}


def test_a_message_has_the_records_headers_and_its_own(tmp_path: Path) -> None:
    layout = cast(Any, build_sink(spec := load(tmp_path, SPEC % "" + TOPIC % ""), spec.outputs[-1])).layout
    assert isinstance(layout, Layout)
    layout.check("dead_letter", SCHEMA)
    rows = add_checkpoint_id(_letters(), 5).to_batches()[0].select(layout.columns(SCHEMA))
    facts = Facts(partitions=1, max_bytes=1_000_000, replication=1)
    messages = Messages(layout, SCHEMA, Topics(Connection("k:1", "g"), facts, "eos-markers")).convert(rows, 1)
    first, second = messages.to_pylist()
    own = {
        "eos.source": b"orders",
        "eos.topic": b"t",
        "eos.partition": b"3",
        "eos.offset": b"7",
        "eos.timestamp": b"2023-11-14T22:13:20.123000Z",
        "eos.error": b"not UTF-8",
        "eos.checkpoint_id": b"5",
    }
    pairs = [(each["key"], each["value"]) for each in first["headers"]]
    assert (first["key"], first["value"], pairs[:3], dict(pairs[3:])) == (b"k\xff", b"\xff{", _HEADERS, own)
    assert (second["key"], second["value"], len(second["headers"])) == (None, None, len(own))


class _Source:
    """Of two batches; of each so many are bad."""

    name = "s"
    split_above: int | None = None
    join_below: int = 0

    def __init__(self, schema: pa.Schema, bad: Sequence[int] = (0, 0)) -> None:
        self.schema, self.bad = schema, bad

    def read(self, _: Sequence[OffsetRange], on_bad_records: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        for count in self.bad:
            on_bad_records(count)
            yield pa.RecordBatch.from_pylist([{"id": count}], schema=self.schema)

    def bad_records(self, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        for _ in range(offsets.records or 0):
            yield _letters()


def test_a_mark_ends_what_a_task_reads() -> None:
    source = _Source(parse_ddl("id BIGINT"), bad=[2, 3])
    rows = [row for batch in read_and_mark(cast(Any, source), [OffsetRange("t/0", 0, 9)]) for row in batch.to_pylist()]
    assert rows == [{"id": 2, "_eos_aside": None}, {"id": 3, "_eos_aside": None}, {"id": None, "_eos_aside": 5}]


class _Named(_Source):
    """Its batches name schemas: the first one two of them, the second one the first of these, the third one another."""

    names_schemas = True
    has_rows = True
    met: Sequence[Mapping[str, str]] = ({"schema 1": "a", "schema 2": "b"}, {"schema 1": "a"}, {"schema 1": "c"})

    def read_with_schemas(
        self,
        ranges: Sequence[OffsetRange],
        on_bad_records: Callable[[int], None],
        on_schemas: Callable[[Mapping[str, str]], None],
    ) -> Iterator[pa.RecordBatch]:
        for batch, schemas in zip(self.read(ranges, on_bad_records), self.met, strict=True):
            on_schemas(schemas)
            if self.has_rows:
                yield batch


def test_h35_a_mark_with_schemas_comes_before_their_first_record() -> None:
    source = _Named(parse_ddl("id BIGINT"), bad=[2, 3, 4])
    batches = list(read_and_mark(cast(Any, source), [OffsetRange("t/0", 0, 9)]))
    assert {batch.schema for batch in batches} == {with_mark(cast(Any, source))}
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    first, other = '[["schema 1", "a"], ["schema 2", "b"]]', '[["schema 1", "c"]]'
    assert rows == [
        (None, None, first),
        (2, None, None),
        (3, None, None),
        (None, None, other),
        (4, None, None),
        (None, 9, None),
    ]
    source.met, source.bad, source.has_rows = source.met[-1:], [9], False
    (all_bad,) = read_and_mark(cast(Any, source), [OffsetRange("t/0", 0, 9)])
    assert all_bad.to_pylist() == [{"id": None, "_eos_aside": 9, "_eos_schemas": other}]
    assert schemas_in([first, other]) == {("schema 1", "a"), ("schema 2", "b"), ("schema 1", "c")}


@pytest.mark.parametrize(
    "kind",
    [
        *("BOOLEAN", "TINYINT", "BIGINT", "DOUBLE", "DECIMAL(10,2)", "STRING", "BINARY", "DATE", "TIMESTAMP"),
        *("TIMESTAMP_NTZ", "ARRAY<STRING>", "STRUCT<a: BIGINT NOT NULL, b: STRING>", "MAP<STRING, BIGINT>"),
    ],
)
def test_a_mark_has_a_value_where_there_must_be_one(kind: str) -> None:
    source = _Source(parse_ddl(f"id {kind} NOT NULL"), bad=[])
    (mark,) = read_and_mark(cast(Any, source), [OffsetRange("t/0", 0, 9)])
    assert mark.schema == with_mark(cast(Any, source))
    assert (mark.num_rows, mark.column("id").null_count, mark.column("_eos_aside")[0].as_py()) == (1, 0, 0)


REFUSED = pa.Table.from_batches([encode_refused_row("out", pa.RecordBatch.from_pydict({"n": [1]}), "too large")])
RANGES = [OffsetRange("t/0", 0, 2), OffsetRange("t/1", 0, 1)]


@pytest.mark.parametrize(
    ("marks", "aside", "written", "wrong"),
    [
        (2, 3, 3, None),
        (2, 3, 2, PrepareError),  # something deleted one meanwhile
        (2, 3, 4, PrepareError),
        (4, 6, 3, None),  # a stage ran twice: its counts are twice as large
        (4, 6, 0, PrepareError),
        (1, 0, 0, None),  # one range was not read to its end: nobody knows
        (1, 0, 3, None),
        (1, 2, 1, None),
        (1, 2, 0, PrepareError),
        (2, 7, 7, BadRecordError),
        (1, 0, 7, BadRecordError),
    ],
)
def test_which_counts_are_believed(marks: int, aside: int, written: int, wrong: type[Exception] | None) -> None:
    found = Found(
        DeadLetters(cast(Any, None), (), most=6),
        [Read(cast(Any, None), [[each] for each in RANGES], marks, aside)],
        REFUSED,
        {},
    )
    assert type(found.mistake(7, written + REFUSED.num_rows)) is (wrong or type(None))


@pytest.mark.parametrize(
    ("marks", "aside", "wrong"),
    [(2, 5, None), (2, 6, BadRecordError), (1, 6, None)],  # one more is a refused row; the last count is not exact
)
def test_too_many_are_known_before_they_are_written(marks: int, aside: int, wrong: type[Exception] | None) -> None:
    read = Read(cast(Any, None), [[each] for each in RANGES], marks, aside)
    found = Found(DeadLetters(cast(Any, None), (), most=6), [read], REFUSED, {})
    assert type(found.surplus(7)) is (wrong or type(None))


@pytest.mark.parametrize(("marks", "aside", "count"), [(2, 5, 6), (2, 0, 1), (1, 0, 9), (4, 10, 9)])
def test_ranges_are_read_again_to_count_what_is_not_exactly_known(
    marks: int, aside: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Read(cast(Any, None), [[each] for each in RANGES], marks, aside)
    monkeypatch.setattr(Found, "rows", lambda *_: SimpleNamespace(count=lambda: 9))
    assert Found(DeadLetters(cast(Any, None), (), most=6), [read], REFUSED, {}).count(cast(Any, None), 7) == count


def test_a_task_stops_at_too_many() -> None:
    source = _Source(pa.schema([]))
    task = _ReadAgain([(cast(Any, source), each) for each in RANGES], 7, 3, TOKEN)
    number = pa.RecordBatch.from_pydict({"id": pa.array([0], pa.int64())})
    with pytest.raises(CarriedError) as caught:
        list(task(iter([number])))
    error = translate(caught.value, "reading")
    assert isinstance(error, BadRecordError)
    assert not error.retriable
    assert "more than 3 dead letters" in str(error)
    assert "topic t, partition 3, offset 7: not UTF-8" in str(error)
    (found,) = replace(task, most=4)(iter([number.slice(0, 0), pa.RecordBatch.from_pydict({"id": [1]})]))
    assert found.schema == SCHEMA
    assert found.column("checkpoint_id").to_pylist() == [7, 7]
    assert found.drop_columns(["checkpoint_id"]).schema == RECORD


def test_a_dead_letter_joins_a_pipeline_that_has_run() -> None:
    """What it takes was never let pass: it lacks nothing. After a checkpoint it is a sink like others."""
    both = {"warehouse": SINK, "late": SinkState()}
    verify("orders", HEAD, NEWEST, SPARK, both, ["late"])
    joining = replace(HEAD, sinks=("warehouse", "late"))  # killed between the claims of head and of the sink
    verify("orders", joining, NEWEST, SPARK, both, ["late"])
    with pytest.raises(IdentityError, match="late is new to this pipeline, whose checkpoint 4 is not yet committed"):
        verify("orders", replace(HEAD, committed=3), NEWEST, SPARK, both, ["late"])
    verify("orders", replace(joining, committed=3), NEWEST, SPARK, both, ["late"])  # by a repair, since it has joined
    with pytest.raises(IdentityError, match="late is new to this pipeline: what was written"):
        verify("orders", HEAD, NEWEST, SPARK, both)
    of_it = replace(NEWEST, committables={**NEWEST.committables, "late": ()})
    with pytest.raises(IdentityError, match="late knows nothing of this pipeline"):
        verify("orders", joining, of_it, SPARK, both, ["late"])


class _Picky:
    """A writer that takes no number above 9, and none at all once it is away."""

    def __init__(self, away_after: int = 1000, said: str = "") -> None:
        self.taken: list[int] = []
        self.said = said
        self.calls, self.away_after = 0, away_after

    def write_atomic(self, batch: pa.RecordBatch) -> None:
        self.calls += 1
        if self.calls > self.away_after:
            raise SinkUnavailableError("it does not answer")
        values = batch.column("n").to_pylist()
        if max(values) > 9:
            raise BadRowError(f"{max(values)} is above 9{self.said}")
        self.taken += values


@given(st.lists(st.integers(0, 12), max_size=40))
def test_what_is_refused_is_alone_and_the_others_keep_their_order(values: list[int]) -> None:
    writer, bisector = _Picky(), RowBisector(len(values))
    bisector.write(cast(Any, writer), "out", pa.record_batch([pa.array(values, pa.int64())], names=["n"]))
    assert writer.taken == [each for each in values if each <= 9]
    letters = decode_dead_letters(encoded).to_pylist() if (encoded := bisector.encode()) is not None else []
    assert [(each["sink"], each["value"], each["error"]) for each in letters] == [
        ("out", b'{"n": %d}' % each, f"{each} is above 9") for each in values if each > 9
    ]


def test_refused_rows_are_known_by_their_digest_whatever_their_order_and_error() -> None:
    """A repair compares it: another row in the place of one would be lost, and one be doubled."""

    def digest(*values: int, offsets: Sequence[int] = (1, 2, 3), said: str = "") -> tuple[int, int]:
        bisector, place = RowBisector(10), pa.record_batch([["t"] * 3, [0] * 3, [*offsets]], names=list(PLACE))
        writer = _Picky(said=said)
        for at, value in enumerate(values):
            bisector.write(
                cast(Any, writer), "out", pa.record_batch([pa.array([value])], names=["n"]), place.slice(at, 1)
            )
        told = bisector.count_refused("out", committable(scope()))
        assert (told.transaction, told.rows) == (committable(scope()).transaction, 3)
        return told.refused, told.refused_digest

    refused_rows, known = digest(10, 1, 11)
    assert (refused_rows, 0 < known < 2**64) == (2, True)
    assert digest(11, 1, 10, offsets=(3, 2, 1), said=", says a newer server") == (2, known)
    assert digest(10, 1, 12)[1] != known
    assert digest(10, 1, 11, offsets=(1, 2, 4))[1] != known
    assert digest(10, 10, 10, offsets=(1, 1, 1))[1] not in (0, digest(10)[1]), "a sum, so that rows do not cancel out"
    assert digest(1, 2, 3) == (0, 0)


@pytest.mark.parametrize("away_after", range(5))
def test_an_outage_is_no_bad_row(away_after: int) -> None:
    bisector = RowBisector(10)
    with pytest.raises(SinkUnavailableError):
        bisector.write(cast(Any, _Picky(away_after)), "out", pa.record_batch([pa.array([1, 10, 2])], names=["n"]))
    assert len(bisector.letters) == (away_after == 4)


def test_too_many_refused_rows_are_an_error() -> None:
    rows = pa.record_batch([pa.array([10, 11, 12])], names=["n"])
    with pytest.raises(TooManyBadRowsError, match=r"more than 2 dead letters .*12 is above 9") as caught:
        RowBisector(2).write(cast(Any, _Picky()), "out", rows)
    assert not caught.value.retriable
    assert not isinstance(caught.value, BadRowError)  # which would begin another try


def test_a_row_says_what_it_knows_of_its_record() -> None:
    row = {"n": 1, "b": b"\xff", "_topic": "t", "_partition": 3, "_offset": 7, "_key": b"k"}
    (letter,) = encode_refused_row("out", pa.RecordBatch.from_pylist([row]), "why").to_pylist()
    known = {name: letter[name] for name in ("source", "sink", "topic", "partition", "offset", "key", "error")}
    expected = {"source": None, "sink": "out", "topic": "t", "partition": 3, "offset": 7, "key": b"k", "error": "why"}
    assert known == expected
    assert json.loads(letter["value"])["b"] == "/w=="


def test_a_row_is_json_whatever_it_holds() -> None:
    """Also what is likely to be refused, and what Python has no type for."""
    far = pa.array([300_000_000_000_000_000], pa.timestamp("us", "UTC"))
    columns = {"x": pa.array([float("nan")]), "at": far, "d": pa.array([Decimal("1.50")])}
    columns |= {"s": pa.array([{"a": [float("inf"), 1.5], "b": b"\xff", "c": None}]), "_timestamp": far}
    columns["_offset"] = pa.array(["not a number"])
    (letter,) = encode_refused_row("out", pa.RecordBatch.from_pydict(columns), "why").to_pylist()
    found = json.loads(letter["value"], parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))
    assert found["s"] == {"a": ["inf", 1.5], "b": "/w==", "c": None}
    assert (found["x"], found["d"], found["at"][:5], letter["offset"]) == ("nan", "1.50", "11476", None)
    assert letter["timestamp"] is None  # MySQL's DATETIME ends in 9999


def _no_text(value: bytes) -> pa.Array:
    """What Spark's CAST(bytes AS STRING) gives."""
    return pa.StringArray.from_buffers(1, *pa.array([value]).buffers()[1:])


def test_a_row_is_json_also_where_python_cannot_hold_it() -> None:
    """An error here would be one of the task, whose checkpoint could never be written."""
    far, long = pa.array([3 * 10**17], pa.timestamp("us", "UTC")), pa.array([10**14], pa.duration("s"))
    nested = pa.StructArray.from_arrays([far, _no_text(b"a\xff"), pa.array([b"\xff"])], ["at", "s", "b"])
    pairs = pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))
    columns = {"s": _no_text(b"a\xff"), "n": nested, "long": long, "m": pairs, "_topic": _no_text(b"\xff"), "z": ["\0"]}
    (letter,) = encode_refused_row("out", pa.RecordBatch.from_pydict(columns), "no\0t this").to_pylist()
    found = json.loads(letter["value"])
    assert found["n"] == {"at": "11476-08-15 05:20:00.000000Z", "s": "a\ufffd", "b": "/w=="}
    assert (found["s"], found["long"], found["z"]) == ("a\ufffd", "100000000000000", "\0")
    assert found["m"] == [{"key": "k", "value": 1}]
    assert (letter["topic"], letter["error"]) == (None, "no\\x00t this")


@pytest.mark.parametrize(
    ("error", "stored"),
    [
        ("a\0b\n", "a\\x00b\\x0a"),
        ("\x7f\x9b2J\u2028\u202e", "\\x7f\\x9b2J\\u2028\\u202e"),
        ("\ud800", "\\ud800"),
        ("ü" * 2000, "ü" * 2000),
        ("ü" * 2001, "ü" * 2000 + "…"),
    ],
)
def test_an_error_is_text_that_any_sink_takes(error: str, stored: str) -> None:
    assert printable(error) == stored
    (letter,) = letters("orders", [_message(7, None, b"{", None)], {0: error}).to_pylist()
    assert letter["error"] == stored


def test_a_row_that_stands_in_an_error_is_printable() -> None:
    assert append_row("bad", '{"v": "ü\x9b2J\u202e"}'.encode()) == 'bad; the row: {"v": "ü\\x9b2J\\u202e"}'


def test_a_topic_that_a_record_has_named_keeps_no_letter_out() -> None:
    """A step may have put a record's text where the topic's name stands, and PostgreSQL takes no NUL."""
    (letter,) = encode_refused_row(
        "out", pa.RecordBatch.from_pydict({"_topic": ["a\0b"], "_offset": [7]}), "bad"
    ).to_pylist()
    assert (letter["topic"], letter["offset"], letter["value"]) == (None, 7, rb'{"_topic": "a\u0000b", "_offset": 7}')


def test_a_row_says_where_its_record_is_though_the_sink_does_not_want_that() -> None:
    values, place = pa.array([1, 10, 2, 11]), {"_topic": ["t"] * 4, "_partition": [0] * 4, "_offset": [5, 6, 7, 8]}
    rows = pa.RecordBatch.from_pydict({"_offset": place["_offset"], "n": values, "_t": ["t"] * 4, "_p": [0] * 4})
    bisector = RowBisector(2, places=(2, 3, 0))
    bisector.write(cast(Any, _Picky()), "out", rows.select(["n"]), bisector.place(rows))
    letters = decode_dead_letters(bisector.encode() or b"").to_pylist()
    assert [(each["topic"], each["partition"], each["offset"]) for each in letters] == [("t", 0, 6), ("t", 0, 8)]
    assert [each["value"] for each in letters] == [b'{"n": 10}', b'{"n": 11}']


@pytest.mark.parametrize("name", MESSAGE_HEADERS)
def test_a_header_of_the_record_is_not_taken_for_ours(tmp_path: Path, name: str) -> None:
    """Though it is called so, and stands right before ours."""
    layout = cast(Any, build_sink(spec := load(tmp_path, SPEC % "" + TOPIC % ""), spec.outputs[-1])).layout
    record = letters("orders", [_message(7, b"k", b"{", [(name, b"9")])], {0: "why"})
    facts = Facts(partitions=1, max_bytes=1_000_000, replication=1)
    messages = Messages(layout, SCHEMA, Topics(Connection("k:1", "g"), facts, "eos-markers"))
    written = messages.convert(add_checkpoint_id(record, 5).to_batches()[0].select(layout.columns(SCHEMA)), 1)
    columns = {"value": written["value"], "_key": written["key"], "_headers": written["headers"]}
    (letter,) = in_topic(pa.RecordBatch.from_pydict(columns))
    assert (letter.headers, letter.sink, letter.source, letter.place) == ([(name, b"9")], None, "orders", "t/3/7")


def test_a_letter_in_a_topic_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Also one of a record that had been a dead letter before, and so has such headers itself."""
    layout = cast(Any, build_sink(spec := load(tmp_path, SPEC % "" + TOPIC % ""), spec.outputs[-1])).layout
    before = [("x", b"1"), *((name, b"9") for name in MESSAGE_HEADERS)]
    first = letters("orders", [_message(7, b"k", b"{", before)], {0: "why"})
    second = encode_refused_row("out", pa.RecordBatch.from_pydict({"n": [1]}), "too large")
    rows = pa.Table.from_batches([first, second]).combine_chunks()
    facts = Facts(partitions=1, max_bytes=1_000_000, replication=1)
    topics = Topics(Connection("k:1", "g"), facts, "eos-markers")
    written = Messages(layout, SCHEMA, topics).convert(
        add_checkpoint_id(rows, 5).to_batches()[0].select(layout.columns(SCHEMA)), 1
    )
    columns = {"value": written["value"], "_key": written["key"], "_headers": written["headers"]}
    strange = pa.RecordBatch.from_pylist([{"value": b"", "_key": None, "_headers": None}])
    record, row = in_topic(pa.RecordBatch.from_pydict(columns))
    assert in_topic(strange.cast(pa.RecordBatch.from_pydict(columns).schema)) == []
    stamp = "2023-11-14T22:13:20.123000Z"
    assert record == DeadLetter("orders", None, "t", 3, 7, stamp, b"k", b"{", before, "why", 5)
    assert record.place == "t/3/7"
    assert row == DeadLetter(None, "out", None, None, None, None, None, b'{"n": 1}', [], "too large", 5)
    assert row.place is None


@pytest.mark.parametrize(
    "theirs",
    [
        {"eos.error": b"bad", "eos.checkpoint_id": b"x"},
        {"eos.error": b"bad", "eos.checkpoint_id": b"9" * 5_000},
        {"eos.error": b"\xff", "eos.checkpoint_id": b"3"},
        {"eos.offset": b"", "eos.error": b"bad", "eos.checkpoint_id": b"3"},
        {"eos.checkpoint_id": b"3"},
    ],
)
def test_a_message_that_is_no_letter_hides_none(theirs: Mapping[str, bytes]) -> None:
    """Anybody with the right to may write to the topic."""
    ours = {"eos.source": b"s", "eos.error": b"bad", "eos.checkpoint_id": b"3"}
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": k, "value": v} for k, v in each.items()] for each in (theirs, ours)], kind)
    values = pa.array([b"1", b"2"])
    (letter,) = in_topic(pa.RecordBatch.from_pydict({"value": values, "_key": values, "_headers": headers}))
    assert (letter.source, letter.value, letter.checkpoint_id) == ("s", b"2", 3)


def _eos(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = run_command_line(["dead-letters", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_command_reads_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whose columns may have other names."""
    table = (
        "dead_letter: {connector: sqlite, path: bad.db, table: bad, commit: write-ahead-log, columns: {why: error}}\n"
    )
    load(tmp_path, SPEC % "" + table)
    spec = str(tmp_path / "spec.yaml")
    code, facts = _eos(capsys, "list", spec)
    assert (code, "cannot be read" in json.dumps(facts)) == (1, True)
    with closing(sqlite3.connect(tmp_path / "bad.db")) as database:
        columns = ", ".join(f'"{each if each != "error" else "why"}"' for each in COLUMNS)
        database.execute(f"CREATE TABLE bad ({columns})")
        headers = encode_headers([("a", b"1")])
        row = ("s", None, "t", 0, 17, "2026-01-31", b"k", b"{", headers, "not JSON", 4)
        database.execute(f"INSERT INTO bad VALUES ({', '.join('?' * len(row))})", row)
        database.commit()
    code, facts = _eos(capsys, "list", spec)
    (letter,) = facts["dead_letters"]
    assert code == 0
    assert (letter["topic"], letter["offset"], letter["key"], letter["headers"]) == ("t", 17, "aw==", [["a", "MQ=="]])
    assert _eos(capsys, "list", spec, "--source", "other")[1]["dead_letters"] == []
    assert run_command_line(["dead-letters", "list", spec]) == 0
    assert "not JSON" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give --source, --sink, --rule, --offset or --all"),
        (("--offset", "t/0/18"), "there are no dead letters for t/0/18"),
        (("--sink", "out", "--rule", "big"), "--sink and --rule exclude each other"),
    ],
)
def test_a_replay_says_of_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    load(tmp_path, SPEC % "" + "dead_letter: {connector: sqlite, path: b.db, table: b, commit: write-ahead-log}\n")
    with closing(sqlite3.connect(tmp_path / "b.db")) as database:
        database.execute("CREATE TABLE b (" + ", ".join(f'"{each}"' for each in COLUMNS) + ")")
    code, facts = _eos(capsys, "replay", str(tmp_path / "spec.yaml"), *arguments)
    assert (code, said in json.dumps(facts)) == (2, True)


def _put(file: Path, *letters: Mapping[str, object]) -> None:
    """Write dead letters of the record t/0/17 into the table `b`, which is created."""
    usual = {
        "source": "s",
        "topic": "t",
        "partition": 0,
        "offset": 17,
        "value": b"{",
        "error": "bad",
        "checkpoint_id": 4,
    }
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE b (" + ", ".join(f'"{each}"' for each in COLUMNS) + ")")
        for each in letters:
            row = {**dict.fromkeys(COLUMNS), **usual, **each}
            database.execute(f"INSERT INTO b VALUES ({', '.join(f':{name}' for name in COLUMNS)})", row)
        database.commit()


IN_A_TABLE = "dead_letter: {connector: sqlite, path: b.db, table: b, commit: write-ahead-log}\n"


@pytest.mark.parametrize("selection", [("--all",), ("--source", "s")])
def test_rows_that_a_rule_rejected_are_resent_only_by_the_name_of_their_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], selection: tuple[str, ...]
) -> None:
    """Other sinks may have other rows of the record. Nothing listens at the address of the spec's Kafka."""
    load(tmp_path, SPEC % "" + IN_A_TABLE)
    _put(tmp_path / "b.db", {"sink": "step:big", "source": "s"}, {"sink": "out"}, {"sink": "out", "source": "other"})
    spec = str(tmp_path / "spec.yaml")
    code, facts = _eos(capsys, "replay", spec, *selection)
    assert (code, facts["chosen"], facts["sent"]) == (0, 0, [])
    assert facts["left_out"] == (3 if selection == ("--all",) else 2)
    assert run_command_line(["dead-letters", "replay", spec, *selection]) == 0
    assert "dead letters of rejected rows. Select them with --sink or --rule" in capsys.readouterr().out
    assert _eos(capsys, "replay", spec, "--offset", "t/0/17")[0] == 2


def test_a_rule_selects_the_rows_of_its_step_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load(tmp_path, SPEC % "" + IN_A_TABLE)
    _put(tmp_path / "b.db", {"sink": "step:big", "topic": "payroll"}, {"sink": "step:other"}, {})
    spec = str(tmp_path / "spec.yaml")
    (letter,) = _eos(capsys, "list", spec, "--rule", "big")[1]["dead_letters"]
    assert letter["sink"] == "step:big"
    assert run_command_line(["dead-letters", "list", spec]) == 0
    assert "rule of step big" in " ".join(capsys.readouterr().out.split())
    assert run_command_line(["dead-letters", "replay", spec, "--rule", "big"]) == 2  # refused for its topic
    shown = capsys.readouterr()
    assert "Every sink gets these records, also sinks that have other rows of them" in shown.out
    assert "'payroll', which the source s does not read" in shown.out + shown.err


MARKED = (
    SPEC.replace("topics: [t]", "topics_pattern: '[^b].*'").replace(
        "write-ahead-log}]",
        "write-ahead-log}, {name: sent, from: s, connector: kafka, bootstrap_servers: 'k:1', topic: b, "
        "format: string, commit: write-ahead-log, markers: own-markers}]",
    )
    % ""
    + TOPIC % ", markers: the-markers"
)


@pytest.mark.parametrize("topic", ["own-markers", "the-markers", "eos-markers"])
@pytest.mark.parametrize("is_chosen", [False, True])
def test_no_record_is_sent_to_a_topic_of_markers(tmp_path: Path, topic: str, *, is_chosen: bool) -> None:
    """Neither by a forged letter, although the source's pattern has the topic's name, nor with `--to`."""
    spec = load(tmp_path, MARKED)
    fair = DeadLetter("s", None, "t", 0, 17, None, b"k", b"{", [], "bad", 3)
    letters = [fair, fair if is_chosen else replace(fair, topic=topic)]
    with pytest.raises(SpecError, match=f"'{topic}' has the markers of pipelines"):
        next(iter(resend(spec, letters, topic if is_chosen else None)))


def test_no_sink_has_a_name_that_dead_letters_of_a_rule_have(tmp_path: Path) -> None:
    step = "transforms: [{name: r, sql: SELECT * FROM s, expect: [{name: a, condition: 1 = 1, action: %s}]}]\n"
    named = SPEC.replace("name: out, from: s", "name: 'step:r', from: r") % "" + IN_A_TABLE
    load(tmp_path, named + step % "skip")
    with pytest.raises(SpecMistakesError, match="'step:r' is a sink's name"):
        load(tmp_path, named + step % "dead-letter")


def test_a_replay_knows_a_record_by_its_place_whichever_source_read_it() -> None:
    letter = DeadLetter("a", None, "t", 0, 17, None, b"k", b"{", [], "bad", 3)
    replay, other = Replay("p", "k:1", {}, "u"), replace(letter, source="b")
    assert replay._key(letter) == replay._key(other)
    assert replay._key_before(letter) != replay._key_before(other)


def test_without_a_dead_letter_there_is_nothing_to_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load(tmp_path, SPEC % "")
    code, facts = _eos(capsys, "list", str(tmp_path / "spec.yaml"))
    assert (code, "the spec has no dead_letter" in json.dumps(facts)) == (2, True)
