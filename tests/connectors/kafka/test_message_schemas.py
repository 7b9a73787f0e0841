"""Messages with schemas: the columns of a part, bad rows, and a start while the sink is away."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.api.encoding import MessagePart, UsedSchema
from connectors.formats.avro.avro_rows import AvroRows
from connectors.formats.json_rows import JsonRows
from connectors.kafka.settings import Connection
from connectors.kafka.sink.formats import Encoders, Formats
from connectors.kafka.sink.layout import Layout
from connectors.kafka.sink.messages import Messages
from connectors.kafka.sink.sink import KafkaSink, KnownTopic
from connectors.kafka.sink.target import Facts, Topics
from connectors.known import encode_known
from connectors.log.place import LogPlace
from connectors.schema_registry.client import Connection as Registry
from connectors.schema_registry.registration import Registration
from eos.errors import BadRowError, SinkUnavailableError, TargetError

_FACTS = Facts(partitions=3, max_bytes=10_000, replication=1)
_AVRO = AvroRows(None)
_FORMATS = Formats(_AVRO, _AVRO)


def _messages(layout: Layout, formats: Formats, **columns: pa.Array) -> list[dict[str, Any]]:
    batch = pa.record_batch(columns)
    layout.check("out", batch.schema)
    formats.check_rows("out", layout, batch.schema)
    topics = Topics(Connection("k:1", "g"), _FACTS, "eos-markers")
    encoders: Encoders = pickle.loads(pickle.dumps(formats.open("out", layout, batch.schema)))
    found: list[dict[str, Any]] = Messages(layout, batch.schema, topics, encoders).convert(batch, 1).to_pylist()
    return found


def test_the_value_has_the_columns_that_say_nothing_else_and_the_key_its_own() -> None:
    layout = Layout("t", format="schema", key=("id",), key_has_schema=True, headers={"h": "origin"})
    found = _messages(
        layout, _FORMATS, id=pa.array([3]), origin=pa.array(["x"]), _offset=pa.array([9]), n=pa.array([4])
    )
    assert [(each["key"], each["value"]) for each in found] == [(b"\x06", b"\x02\x06\x02\x08")]


def test_a_key_without_a_schema_is_as_it_was() -> None:
    layout = Layout("t", format="schema", key=("id",))
    (found,) = _messages(layout, Formats(_AVRO), id=pa.array(["k"]), n=pa.array([4]))
    assert (found["key"], found["value"]) == (b"k", b"\x02\x02k\x02\x08")


def test_a_key_with_a_schema_and_a_value_without() -> None:
    layout = Layout("t", key=("id",), key_has_schema=True)
    (found,) = _messages(layout, Formats(None, _AVRO), id=pa.array([3]))
    assert (found["key"], found["value"]) == (b"\x06", b'{"id":3}')


def test_a_tombstone_has_a_key_and_its_other_columns_need_not_fit_the_schema() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}, {"name": "n", "type": "int"}]}
    layout = Layout("t", format="schema", key=("id",), key_has_schema=True, deleted="gone")
    columns = {"id": pa.array([1, 2, 3, 4]), "gone": pa.array([False, True, None, True])}
    formats = Formats(AvroRows(None, json.dumps(schema)), _AVRO)
    found = _messages(layout, formats, **columns, n=pa.array([5, None, 7, 2**40]))
    assert [(each["key"], each["value"]) for each in found] == [
        (b"\x02", b"\x02\x0a"),
        (b"\x04", None),
        (b"\x06", b"\x06\x0e"),
        (b"\x08", None),
    ]
    with pytest.raises(BadRowError, match="row 3, column 'n': n: NULL, which the schema does not take"):
        _messages(layout, formats, **columns, n=pa.array([5, None, None, 7]))


def test_a_row_that_the_schema_of_the_key_does_not_take_is_bad() -> None:
    layout = Layout("t", format="schema", key=("id", "n"), key_has_schema=True)
    formats = Formats(
        _AVRO,
        AvroRows(
            None,
            json.dumps(
                {
                    "type": "record",
                    "name": "K",
                    "fields": [{"name": "id", "type": "long"}, {"name": "n", "type": "int"}],
                }
            ),
        ),
    )
    with pytest.raises(BadRowError, match="row 2, column 'n': n: a number out of the range"):
        _messages(layout, formats, id=pa.array([1, 2]), n=pa.array([1, 2**31]))


def test_rows_without_a_type_in_avro_make_no_messages() -> None:
    layout = Layout("t", format="schema", key=("id",), key_has_schema=True)
    with pytest.raises(
        TargetError, match="sink out: the rows do not make messages: column 'a b' is not a name in Avro"
    ):
        _FORMATS.check_rows("out", layout, pa.schema([("id", pa.int64()), ("a b", pa.int64())]))


def test_a_subject_that_has_the_name_of_a_record_needs_one() -> None:
    form = AvroRows(Registration(Registry("http://r"), "record-name"), record="com.example.Key")
    part = MessagePart("out", None, "key")
    assert form.problems(part, pa.schema([("id", pa.int64())])) == [
        "the subject has the name of a record, and the schema is not a record"
    ]
    assert form.problems(part, pa.schema([("id", pa.int64()), ("n", pa.int64())])) == []


_ROWS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.string())])
_AWAY = Registration(Registry("http://127.0.0.1:1", "u", "8fK2-secret"))
_USED = UsedSchema(AvroRows(None).open(MessagePart("out", "t", "value"), _ROWS).used.text, 7)


def _sink(folder: Path, form: AvroRows | JsonRows | None) -> KafkaSink:
    layout = Layout("t", format="schema" if form is not None else "json")
    return KafkaSink("out", "127.0.0.1:1", layout, LogPlace(folder), formats=Formats(form))


def _known(used: UsedSchema) -> str:
    return encode_known("127.0.0.1:1, topic t", KnownTopic, KnownTopic(_FACTS, {"value": used}))


def test_h32_a_start_without_the_sink_writes_with_the_schema_of_the_start_before(tmp_path: Path) -> None:
    """The registry is not asked: it may keep its schemas in the brokers that are away."""
    opened = _sink(tmp_path, AvroRows(_AWAY, encoding="confluent")).open_cached(_ROWS, _known(_USED))
    assert opened.encoders["value"].used == _USED
    rows = pa.record_batch({"id": pa.array([1]), "n": pa.array([None], pa.string())}, _ROWS)
    assert opened.encoders["value"].encode(rows).to_pylist() == [b"\0\0\0\0\7\2\0"]
    assert b"8fK2" not in pickle.dumps(opened)  # tasks need no login
    assert opened.cached_target == _known(_USED)


def test_h32_a_start_without_the_sink_waits_if_the_schema_is_another_one(tmp_path: Path) -> None:
    sink = _sink(tmp_path, AvroRows(_AWAY, encoding="confluent"))
    for rows, known in (
        (_ROWS.append(pa.field("more", pa.int64())), _known(_USED)),
        (_ROWS, _known(UsedSchema(_USED.text))),
        (_ROWS, encode_known("127.0.0.1:1, topic t", KnownTopic, KnownTopic(_FACTS, {}))),
        (_ROWS, encode_known("127.0.0.1:1, topic t", Facts, _FACTS)),
    ):
        with pytest.raises(SinkUnavailableError, match="cannot go on without it"):
            sink.open_cached(rows, known)
    with pytest.raises(SinkUnavailableError):
        _sink(tmp_path, None).open_cached(_ROWS, _known(_USED))
    assert _sink(tmp_path, None).open_cached(_ROWS, encode_known("127.0.0.1:1, topic t", Facts, _FACTS)).encoders == {}
