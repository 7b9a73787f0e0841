"""Change events become rows; what is no row is omitted or bad, and never lost."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.formats.debezium.rows import PLACEHOLDER
from tests.connectors.formats.debezium.written import (
    connect_field,
    decode,
    event,
    json_format,
    packed,
    reasons,
    wrapped,
    wrapped_key,
)
from tests.searches import examples

DDL = "id BIGINT NOT NULL, name STRING NOT NULL, age INT"
FORMAT = json_format(DDL)
ROW = {"id": 7, "name": "n", "age": 1}
KEY = b'{"id":7}'
FIELDS = [connect_field("id", "int64"), connect_field("name", "string"), connect_field("age", "int32")]

HEARTBEAT = b'{"ts_ms":1700000000000}'
TRANSACTION = packed({"status": "BEGIN", "id": "0-1-9", "ts_ms": 1, "event_count": None, "data_collections": None})
CHANGE_OF_SCHEMA = packed({"source": {"ts_ms": 1}, "databaseName": "shop", "ddl": "CREATE TABLE …", "tableChanges": []})


def rows(values: list[bytes | None], keys: list[bytes | None] | None = None) -> list[tuple[Any, ...]]:
    decoded = decode(FORMAT, values, keys or [])
    assert decoded.bad == ()
    return [(each["id"], each["name"], each["_op"], each["_deleted"]) for each in decoded.rows.to_pylist()]


def test_each_op_is_a_row() -> None:
    values = [event("c", None, ROW), event("r", None, ROW), event("u", ROW, {**ROW, "name": "m"}), event("d", ROW)]
    assert rows([*values]) == [(7, "n", "c", False), (7, "n", "r", False), (7, "m", "u", False), (7, "n", "d", True)]


def test_a_deletion_without_before_has_the_columns_of_its_key() -> None:
    decoded = decode(FORMAT, [event("d"), event("c", None, ROW)], [KEY, None])
    assert [list(each.values())[:5] for each in decoded.rows.to_pylist()] == [
        [7, None, None, "d", True],
        [7, "n", 1, "c", False],
    ]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (None, "a deletion without `before`, and the record has no key"),
        (b'{"other":7}', "a deletion without `before`, and the record's key has no column of the schema"),
        (b"{", "the record's key: not valid JSON"),
        (b'{"id":"x"}', "the record's key: field id: expected number, found string"),
        (b'{"schema":7,"payload":{"id":7}}', "the record's key: its `schema` is not one of Connect's"),
    ],
)
def test_a_deletion_without_before_needs_a_key(key: bytes | None, reason: str) -> None:
    (found,) = reasons(decode(FORMAT, [event("d")], [key]))
    assert found.startswith(reason)


def test_a_key_with_a_schema() -> None:
    assert rows([event("d")], [wrapped_key(FIELDS[:1], KEY)]) == [(7, None, "d", True)]


@pytest.mark.parametrize("value", [None, HEARTBEAT, TRANSACTION, CHANGE_OF_SCHEMA, wrapped(FIELDS, b"null")])
def test_records_that_describe_no_row_are_omitted(value: bytes | None) -> None:
    for given_value in (value, value and wrapped(FIELDS, value) if value and b"schema" not in value[:10] else value):
        decoded = decode(FORMAT, [event("c", None, ROW), given_value, event("d", ROW)])
        assert (decoded.bad, decoded.omitted) == ((), (1,))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{}", "no `op`"),
        (b'{"ts_ms":1,"id":7}', "no `op`"),  # a row that was flattened, and not a heartbeat
        (packed({**ROW, "status": "BEGIN"}), "no `op`"),
        (event(None, None, ROW), "no `op`"),
        (event("x", None, ROW), "unknown op 'x'"),
        (event("m"), "unknown op 'm'"),
        (event(""), "unknown op ''"),
        (event("c"), "an event 'c' without `after`"),
        (event("u", ROW), "an event 'u' without `after`"),
        (event("t"), "the table was truncated"),
        (event("c", None, {"id": 7}), "name is NOT NULL, and null or absent"),
        (event("c", None, {**ROW, "id": "7"}), "field after/id: expected number, found string"),
        (event("c", None, {**ROW, "age": 2**40}), "field after/age: '1099511627776' does not fit INT"),
        (event("c", None, "text"), "field after: expected object, found string"),
        (event("c", None, {**ROW, "name": PLACEHOLDER}), "name: the event lacks its value, which did not change"),
        (event("c", None, ROW, source={"ts_ms": 2**60}), "source: its time is not in the years 1 to 9999"),
        (event("c", None, ROW)[:-1], "not valid JSON"),
        (event("c", None, ROW) + b"{}", "not valid JSON"),
        (wrapped(FIELDS, event("c", None, ROW))[:-1], "not valid JSON"),
        (wrapped(FIELDS, event("c", None, ROW)) + b"}", "not valid JSON"),
        (wrapped(FIELDS, event("c", None, ROW))[:-1] + b',"more":1}', "not valid JSON"),
        (wrapped(FIELDS, event("c", None, ROW))[:-1] + b" ", "it begins with `schema` or `payload`"),
        (b'{"payload":' + event("c", None, ROW) + b"}", "it begins with `schema` or `payload`"),
        (b'{"schema":{"fields":7},"payload":{}}', "its `schema` is not one of Connect's"),
        (b'{"schema":{,"payload":{}}', "its `schema` is not one of Connect's"),
        (b'{"schema":{"fields":[]}}', "it begins with `schema` or `payload`"),
        (b"\xff", "not UTF-8"),
        (b"", "not valid JSON: empty value"),
    ],
)
def test_records_that_are_no_events_are_bad(value: bytes, reason: str) -> None:
    decoded = decode(FORMAT, [event("c", None, ROW), value, event("d", ROW)])
    assert [each.index for each in decoded.bad] == [1]
    assert decoded.bad[0].reason.startswith(reason), decoded.bad[0].reason
    assert decoded.rows.num_rows == 2


def test_a_truncate_is_omitted_only_if_the_spec_says_so() -> None:
    assert decode(json_format(DDL, truncate="skip"), [event("t"), event("d", ROW)]).omitted == (0,)
    assert "truncate: skip" in reasons(decode(FORMAT, [event("t")]))[0]


def test_a_deleted_row_may_lack_what_is_not_null() -> None:
    """PostgreSQL logs the key only, by default."""
    decoded = decode(FORMAT, [event("d", {"id": 7}), event("d", {"id": 7, "name": PLACEHOLDER})])
    assert [each["name"] for each in decoded.rows.to_pylist()] == [None, None]
    assert decoded.bad == ()


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("v BINARY", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
        ("v ARRAY<STRING>", ["a", PLACEHOLDER]),
        ("v STRING", f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}'),
    ],
)
def test_a_value_that_was_not_logged_is_bad_in_each_form(ddl: str, value: Any) -> None:
    decoded = decode(json_format(ddl), [event("u", None, {"v": value}), event("u", None, {})])
    assert [each.index for each in decoded.bad] == [0]


def test_schemas_of_several_kinds_in_one_batch() -> None:
    """Rows stay in the order of the records."""
    spaced = b'{ "schema" : null ,\n "payload" : ' + event("c", None, {**ROW, "id": 3}) + b"}"
    others = [*FIELDS, connect_field("more", "string")]
    values = [
        event("c", None, {**ROW, "id": 0}),
        wrapped(FIELDS, event("c", None, {**ROW, "id": 1})),
        wrapped(others, event("c", None, {**ROW, "id": 2})),
        spaced,
        wrapped(FIELDS, event("c", None, {**ROW, "id": 4})),
        wrapped([connect_field("age", "int64", "io.debezium.time.MicroTime")], event("c", None, {**ROW, "id": 5})),
    ]
    assert [each[0] for each in rows([*values])] == [0, 1, 2, 3, 4, 5]


def test_documents() -> None:
    """MongoDB: images are text, and the key has the text of the document's `_id`."""
    decoder = json_format("_id STRUCT<`$oid`: STRING>, name STRING NOT NULL", documents=True)
    document = json.dumps({"_id": {"$oid": "ab"}, "name": "n", "more": [1]})
    key = packed({"id": '{"$oid": "ab"}'})
    source = {"ts_ms": 1_000, "ord": 3}
    values = [
        event("c", None, document, source=source),
        event("u", None, None),
        event("d", source=source),
        event("c", None, "{"),
        event("d", document),
        event("c", None, '{"_id": {"$oid": "ab"}}'),
    ]
    decoded = decode(decoder, values, [key] * len(values))
    found = [(each["_id"]["$oid"], each["name"], each["_deleted"]) for each in decoded.rows.to_pylist()]
    assert found == [("ab", "n", False), ("ab", None, True), ("ab", "n", True)]
    assert decoded.rows.column("_position")[0].as_py() == "00000000000000001000:00000000000000000003"
    assert [(each.index, each.reason.partition(":")[0]) for each in decoded.bad] == [
        (1, "an event 'u' without `after`"),
        (3, "not valid JSON"),
        (5, "field name"),
    ]


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from([ROW, "c", "d", PLACEHOLDER, {}, [], SOURCE_LIKE := {"ts_ms": 1, "file": "b.9", "pos": 1}]),
)
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["id", "name", "age", "op", "before", "after", "source", "zz"]), inner),
    ),
    max_leaves=6,
)
envelopes = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("before", "after", "source", "op", "payload", "schema", "ts_ms", "status"), trees),
)
good = st.sampled_from([event("c", None, ROW), event("d", ROW), HEARTBEAT, wrapped(FIELDS, event("r", None, ROW))])
cut = st.tuples(good, st.integers(0, 300)).map(lambda each: each[0][: each[1]])
records = st.one_of(good, envelopes.map(packed), cut, st.binary(max_size=9), st.none())


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(records, max_size=8), st.lists(st.one_of(st.just(KEY), st.none(), st.binary(max_size=5)), min_size=8))
@example([b'{"schema":' + b"[" * 5_000 + b',"payload":{}}', b'{"after":' + b"[" * 5_000], [None] * 8)
@example([packed({"op": "c", "after": ROW, "source": {"pos": 2**63}}), packed({"op": "c", "after": ROW})], [None] * 8)
def test_a_record_does_not_depend_on_its_neighbours(values: list[bytes | None], keys: list[bytes | None]) -> None:
    keys = keys[: len(values)]
    whole = decode(FORMAT, values, keys)
    found: list[Any] = [None] * len(values)
    for each in whole.bad:
        found[each.index] = each.reason
    left = iter(whole.rows.to_pylist())
    bad = {each.index for each in whole.bad}
    for at, value in enumerate(values):
        alone = decode(FORMAT, [value], keys[at : at + 1])
        if at in whole.omitted:
            assert alone.omitted == (0,)
        elif at in bad:
            assert reasons(alone) == [found[at]]
        else:
            assert alone.rows.to_pylist() == [next(left)]


def test_deep_nesting_and_long_numbers_raise_nothing() -> None:
    deep = b'{"before":null,"after":{"id":1,"name":"n","zz":' + b"[" * 100_000 + b"]" * 100_000 + b'},"op":"c"}'
    long = event("c", None, ROW).replace(b'"age":1', b'"age":' + b"9" * 5_000)
    decoded = decode(FORMAT, [deep, long, event("c", None, ROW), deep[:-3]])
    assert [each.index for each in decoded.bad] == [1, 3]


def test_a_format_travels_to_a_task() -> None:
    assert pickle.loads(pickle.dumps(FORMAT)).schema == FORMAT.schema
