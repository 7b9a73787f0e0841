"""Head, records and committables as bytes: golden files, round trips, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eos.errors import HeadFormatError
from tests.twophase_values import INCARNATION, record
from twophase.codec import (
    NEWEST,
    Part,
    check_writable,
    decode_committable,
    decode_head,
    decode_record,
    decode_splits,
    encode_committable,
    encode_head,
    encode_record,
    encode_splits,
    sha256_of,
)
from twophase.head_value import HeadValue, RecordRef
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import CheckpointRecord, Committable, OffsetRange

GOLDEN = Path(__file__).parents[1] / "golden"

SCOPE = Scope(INCARNATION, 3, 17, 2)
COMMITTABLE = Committable(
    TransactionId(SCOPE, sink_key("Lager Süd"), 5, 4711), 1000, 81234, 2**64 - 1, {"segment": "a/ü.arrow"}
)
RECORD = CheckpointRecord(
    scope=SCOPE,
    ranges={"orders": (OffsetRange("orders/0", 100, 250), OffsetRange("orders/1", 0, 7)), "idle": ()},
    offsets_log='v1\n{"batchWatermarkMs":0}\n{"orders/0":250,"orders/1":7}',
    committables={"Lager Süd": (COMMITTABLE,), "empty": ()},
    started_at=1760000000.25,
    decided_at=1760000001.5,
    digest_method=None,  # by a version that named neither
    written_by="",
)
RECORD_OF_METHOD_2 = replace(RECORD, digest_method=2, written_by="0.1.0")
HEAD = HeadValue(
    pipeline="Aufträge",
    incarnation=INCARNATION,
    epoch=3,
    nonces=("f00d.1", "f00d.2"),
    query_id="5b1f0e2c-0000-4000-8000-000000000000",
    completed=17,
    committed=16,
    aborted_checkpoint=18,
    aborted_attempt=1,
    initial={"orders": {"orders/0": 100, "orders/1": 0}},
    identities={"orders": {"orders": "0b8zAAAAQACAAAAAAAAAAA"}},
    positions={"orders": {"orders/0": 250, "orders/1": 7}},
    records=(RecordRef(17, f"{SCOPE}-0123456789abcdef.json", "0" * 64),),
    sinks=("Lager Süd", "empty"),
)

KINDS: dict[str, tuple[Any, Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    "head": (HEAD, encode_head, decode_head),
    "record": (RECORD, encode_record, decode_record),
    "record-2": (RECORD_OF_METHOD_2, encode_record, decode_record),
    "committable": (COMMITTABLE, encode_committable, decode_committable),
}


def document_of(kind: str) -> str:
    return kind.partition("-")[0]


@pytest.mark.parametrize("kind", KINDS)
def test_format_1_is_written_to_the_letter_and_read_for_ever(kind: str) -> None:
    value, encode, decode = KINDS[kind]
    golden = (GOLDEN / f"{kind}.json").read_bytes()
    assert encode(value) == golden
    assert decode(golden) == value


def test_h34_head_says_which_records_are_of_at_least_once_checkpoints() -> None:
    direct = replace(HEAD, records=(*HEAD.records, RecordRef(18, "later", "1" * 64, direct=True)))
    assert json.loads(encode_head(direct))["direct"] == [18]
    assert decode_head(encode_head(direct)) == direct
    assert all(len(each) == 3 for each in json.loads(encode_head(direct))["records"]), "an earlier version reads three"


def test_h35_head_and_records_keep_the_schemas_of_their_records() -> None:
    schemas = {"orders": {"schema 7": "0123456789abcdef"}}
    head, record = replace(HEAD, schemas=schemas), replace(RECORD, schemas=schemas)
    assert decode_head(encode_head(head)) == head
    assert decode_record(encode_record(record)) == record
    assert json.loads(encode_head(head))["schemas"] == json.loads(encode_record(record))["schemas"] == schemas


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("found", [3, 99, 0, "1", None])
def test_another_format_is_refused_by_name(kind: str, found: object) -> None:
    _, _, decode = KINDS[kind]
    document = json.loads((GOLDEN / f"{kind}.json").read_bytes())
    words = f"this {document_of(kind)} has format {found}; this version reads format {NEWEST[document_of(kind)]}"
    with pytest.raises(HeadFormatError, match=words) as caught:
        decode(json.dumps({**document, "format": found}).encode())
    assert "newer" in caught.value.remedy


def newer(kind: str, least_reader: object, **more: object) -> bytes:
    """A golden document as a version of format 4 may write it."""
    document = json.loads((GOLDEN / f"{kind}.json").read_bytes()) | {"format": 4, "least_reader": least_reader} | more
    if "checksum" in document:
        del document["checksum"]
        document["checksum"] = sha256_of(_canonical(document))
    return _canonical(document)


def _canonical(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("kind", KINDS)
def test_a_newer_document_is_read_where_its_writer_says_that_this_version_can(kind: str) -> None:
    value, _, decode = KINDS[kind]
    found = decode(newer(kind, 1, colour="red"))
    assert found == (replace(value, unknown=("colour",)) if kind == "head" else value)
    assert decode(newer(kind, 1)) == value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("least_reader", [3, 4, "1", 1.0, True])
def test_a_newer_document_that_takes_a_newer_reader_is_refused_by_name(kind: str, least_reader: object) -> None:
    newest = NEWEST[document_of(kind)]
    words = (
        f"this {document_of(kind)} has format 4, which is read from format {least_reader} on; "
        f"this version reads {newest}"
    )
    with pytest.raises(HeadFormatError, match=words) as caught:
        KINDS[kind][2](newer(kind, least_reader, colour="red"))
    assert "newer" in caught.value.remedy


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_known_of_this_very_format_is_refused_by_name(kind: str) -> None:
    document = json.loads(newer(kind, None, colour="red")) | {"format": 1}
    del document["least_reader"]
    with pytest.raises(
        HeadFormatError, match=f"this {document_of(kind)} has what this version does not know: 'colour'"
    ):
        KINDS[kind][2](_canonical(document))


def test_a_head_with_what_a_newer_version_keeps_there_is_not_written() -> None:
    check_writable(HEAD)
    with pytest.raises(
        HeadFormatError, match="a newer version keeps 'colour', 'size' in head, and this one would lose"
    ) as caught:
        check_writable(decode_head(newer("head", 1, colour="red", size=1)))
    assert "newer" in caught.value.remedy


def test_a_head_in_two_parts_is_written_to_the_letter_and_refused_by_the_versions_before() -> None:
    """They look for the splits in head itself."""
    splits = (GOLDEN / "head-2-splits.json").read_bytes()
    part = Part("splits-of-17.json", sha256_of(splits))
    assert encode_splits(HEAD) == splits
    golden = (GOLDEN / "head-2.json").read_bytes()
    assert encode_head(HEAD, part) == golden
    assert decode_head(golden, partial(decode_splits, splits)) == HEAD
    assert (json.loads(golden)["format"], json.loads(golden)["least_reader"]) == (2, 2)
    with pytest.raises(HeadFormatError, match=r"names splits-of-17.json, and is read without its store"):
        decode_head(golden)
    with pytest.raises(HeadFormatError, match=r"splits-of-17.json does not match the hash that head holds"):
        decode_head(golden, partial(decode_splits, splits.replace(b"250", b"251")))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content", [b"", b"{", b"null", b"[]", b"7", b'"x"', b"{}", b"\xff\xfe", b'{"format":1}'])
def test_what_is_no_document_is_damaged(kind: str, content: bytes) -> None:
    with pytest.raises(HeadFormatError, match=f"this {document_of(kind)} is damaged"):
        KINDS[kind][2](content)


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_is_needed(kind: str) -> None:
    document = json.loads((GOLDEN / f"{kind}.json").read_bytes())
    for key in document.keys() - {"digest_method", "written_by"}:  # absent in records of earlier versions
        less = {k: v for k, v in document.items() if k != key}
        with pytest.raises(HeadFormatError, match=f"this {document_of(kind)} is damaged.*({key}|checksum)"):
            KINDS[kind][2](json.dumps(less).encode())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("digest_method", odd) for odd in ("1", True, 1.0, [1])),
        *(("written_by", odd) for odd in (None, 1, "\x1b[31m1.0", "1" * 101)),
    ],
)
def test_odd_methods_and_versions_are_damage(key: str, value: object) -> None:
    document = json.loads((GOLDEN / "record-2.json").read_bytes())
    with pytest.raises(HeadFormatError, match="this record is damaged"):
        decode_record(json.dumps({**document, key: value}).encode())


def test_h25_a_record_names_the_lists_of_files_in_a_store() -> None:
    assert b"source_lists" not in encode_record(RECORD)
    lists = {"sources/0": "0f" * 32}
    assert decode_record(encode_record(replace(RECORD, source_lists=lists))).source_lists == lists


def test_h39_a_record_names_what_was_left_out() -> None:
    """A record without such ranges has the bytes that earlier versions wrote."""
    left_out = {"orders": (OffsetRange("orders/0", 100, 110),)}
    encoded = encode_record(replace(RECORD, left_out=left_out))
    assert json.loads(encoded)["left_out"] == {"orders": [["orders/0", 100, 110]]}
    assert decode_record(encoded).left_out == left_out


def test_a_long_version_is_cut_where_it_is_written() -> None:
    assert decode_record(encode_record(replace(RECORD, written_by="1" * 101))).written_by == "1" * 100


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_damaged_document_is_refused_or_read_and_nothing_else(kind: str, data: st.DataObject) -> None:
    golden = (GOLDEN / f"{kind}.json").read_bytes()
    at = data.draw(st.integers(0, len(golden) - 1))
    to = data.draw(st.integers(at, len(golden)))
    changed = golden[:at] + data.draw(st.binary(max_size=3)) + golden[to:]
    try:
        KINDS[kind][2](changed)
    except HeadFormatError:
        return


@given(st.data())
def test_values_of_a_wrong_shape_are_refused(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    document = json.loads((GOLDEN / f"{kind}.json").read_bytes())
    key = data.draw(st.sampled_from(sorted(document)))
    document[key] = data.draw(st.sampled_from([None, 7, "x", [], [7], {}, {"x": 7}, {"x": [7]}, [[]]]))
    try:
        KINDS[kind][2](json.dumps(document).encode())
    except HeadFormatError:
        return


def test_a_record_that_does_not_match_its_hash_is_damaged() -> None:
    golden = (GOLDEN / "record.json").read_bytes()
    assert decode_record(golden, sha256_of(golden)) == RECORD
    with pytest.raises(HeadFormatError, match="does not match the hash that head holds"):
        decode_record(golden.replace(b"250", b"251"), sha256_of(golden))


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_one_flipped_bit_of_head_is_damage_or_changes_nothing(at: int, bit: int) -> None:
    content = bytearray((GOLDEN / "head.json").read_bytes())
    content[at % len(content)] ^= 1 << bit
    try:
        read = decode_head(bytes(content))
    except HeadFormatError:
        return
    assert read == HEAD


def test_a_head_that_does_not_match_its_checksum_says_what_to_do() -> None:
    golden = (GOLDEN / "head.json").read_bytes()
    with pytest.raises(
        HeadFormatError, match="this head is damaged: its content does not match its checksum"
    ) as caught:
        decode_head(golden.replace(b'"completed":17', b'"completed":16'))
    assert "backup" in caught.value.remedy
    assert "eos reset" in caught.value.remedy


names = st.text(min_size=1, max_size=12)
numbers = st.integers(0, 2**53)
letters = st.text("0123456789abcdefghijklmnopqrstuvwxyz", min_size=20, max_size=20)
scopes = st.builds(Scope, letters, st.integers(0, 2**32 - 1), st.integers(0, 2**48 - 1), st.integers(0, 2**16 - 1))
transactions = st.builds(
    TransactionId, scopes, names.map(sink_key), st.integers(0, 2**24 - 1), st.integers(0, 2**64 - 1)
)
committables = st.builds(
    Committable,
    transactions,
    numbers,
    numbers,
    st.integers(0, 2**64 - 1),
    st.dictionaries(names, names, max_size=3),
    st.just(0) | numbers,
)
ranges = st.builds(OffsetRange, names, numbers, numbers)
records = st.builds(
    CheckpointRecord,
    scopes,
    st.dictionaries(names, st.lists(ranges, max_size=3).map(tuple), max_size=3),
    st.text(max_size=40),
    st.dictionaries(names, st.lists(committables, max_size=3).map(tuple), max_size=3),
    st.floats(0, 2e9),
    st.floats(0, 2e9),
)
positions = st.dictionaries(names, st.dictionaries(names, numbers, max_size=3), max_size=3)
heads = st.builds(
    HeadValue,
    names,
    letters,
    numbers,
    st.lists(names, max_size=8).map(tuple),
    st.none() | names,
    st.integers(-1, 2**48),
    st.integers(-1, 2**48),
    st.integers(-1, 2**48),
    numbers,
    positions,
    st.dictionaries(names, st.dictionaries(names, names, max_size=3), max_size=3),
    positions,
    st.lists(st.builds(RecordRef, numbers, names, names), max_size=4).map(tuple),
    st.lists(names, max_size=3).map(tuple),
)


@given(heads)
def test_a_head_comes_back_as_it_was(value: HeadValue) -> None:
    assert decode_head(encode_head(value)) == value


@given(records)
def test_a_record_comes_back_as_it_was(value: CheckpointRecord) -> None:
    content = encode_record(value)
    assert decode_record(content, sha256_of(content)) == value
    assert encode_record(decode_record(content)) == content


@given(committables)
def test_a_committable_comes_back_as_it_was(value: Committable) -> None:
    assert decode_committable(encode_committable(value)) == value


def test_refused_rows_are_in_the_digest_of_a_record_and_not_in_its_rows() -> None:
    """A replay cannot know which rows a sink refused: it is given all of them (R4)."""
    plain = record(4, 0, 10)
    (committable,) = plain.committables["warehouse"]
    refused = replace(plain, committables={"warehouse": (replace(committable, refused=2, digest=7),)})
    assert refused.rows == plain.rows == 3
    assert refused.digest == {"warehouse": (5, 7)}
    assert decode_record(encode_record(refused)) == refused
    assert b"refused" not in encode_record(plain)


@given(transactions)
def test_ids_are_of_fixed_width_and_fit_an_xa_id(value: TransactionId) -> None:
    gtrid, bqual = str(value.scope), value.branch
    assert (len(gtrid), len(bqual)) == (47, 36)
    assert (gtrid + bqual).isascii()
    assert TransactionId.parse(str(value)) == value
    assert Scope.parse(gtrid) == value.scope


@given(transactions, st.data())
def test_an_id_of_somebody_else_is_none_of_ours(value: TransactionId, data: st.DataObject) -> None:
    text = str(value)
    at = data.draw(st.integers(0, len(text)))
    changed = text[:at] + data.draw(st.sampled_from(["-", " ", "\n", "é", "A", "/"])) + text[at:]
    assert TransactionId.parse(changed) is None


@pytest.mark.parametrize("text", ["", "/", "foreign", "x" * 86, "\n", "orders-1", f"{INCARNATION}-1-2-3/4-5-6"])
def test_foreign_ids(text: str) -> None:
    assert TransactionId.parse(text) is None
    assert Scope.parse(text) is None


def test_a_line_end_makes_a_foreign_id() -> None:
    assert TransactionId.parse(f"{COMMITTABLE.transaction}\n") is None
    assert Scope.parse(f"{SCOPE}\n") is None


def test_ids_sort_by_epoch_checkpoint_and_try() -> None:
    def key(epoch: int, checkpoint_id: int, attempt: int) -> str:
        return str(Scope(INCARNATION, epoch, checkpoint_id, attempt))

    assert key(1, 2, 3) < key(1, 2, 10) < key(1, 11, 1) < key(16, 0, 1)
