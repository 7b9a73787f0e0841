"""Records that nobody would write: each is refused, or decodes as Google's library decodes it."""

from __future__ import annotations

import random
import re
import time
from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from connectors.formats.protobuf import walk, wire
from connectors.formats.protobuf.faults import Faults
from connectors.formats.protobuf.wire import messages_of, tokens_of
from tests.connectors.formats.protobuf.written import (
    EVERYTHING,
    OLDER,
    RefusedError,
    class_of,
    decode,
    descriptor_of,
    messages,
    reader_of,
    row_of,
    rows,
    same,
)
from tests.searches import examples

_SETTINGS = settings(
    deadline=None, suppress_health_check=list(HealthCheck), max_examples=examples(25), phases=[Phase.generate]
)
"""A failure is not made smaller: these records are small, and that takes minutes."""

_STRICTER: Final = (
    r"outside of (int32|sint32|uint32|bool)$",  # Google's library cuts bits off
    r"a number without a name$",  # it has the number, or drops the field
    r"not written with the type that the schema gives$",  # it drops the field
    r"a field that is neither key nor value$",  # it drops the entry
    r"a number has more than 64 bits$",  # it cuts bits off
    r"not UTF-8$",  # of proto2: it gives the bytes to whom asks for them
    r"more than 1,000,000 fields$",
    r"groups nested deeper than 64 levels$",
    r"nanoseconds, which TIMESTAMP does not have$",
    r"not a timestamp of the years 1 to 9999$",
)
"""Reasons of records that Google's library takes. Documented in docs/reference/formats.md."""


@pytest.fixture(params=["by steps of all messages", "one message after another"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways in which fields are found."""
    monkeypatch.setattr(wire, "FEW", 0 if request.param == "by steps of all messages" else 1_000)


def _expected(text: str, value: bytes) -> dict[str, object] | None:
    """Return the row of a record by Google's library; None if the library or a column cannot hold it."""
    try:
        return row_of(class_of(text).FromString(value))
    except (DecodeError, RefusedError, UnicodeDecodeError):
        return None


def _changed(value: bytes, others: list[bytes], chance: random.Random) -> bytes:
    changed = bytearray(value)
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(changed))
        match chance.randrange(6):
            case 0:
                changed[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del changed[at : at + 1]
            case 2:
                changed.insert(at, chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)]))
            case 3:
                del changed[at:]
            case 4:
                other = chance.choice(others)
                changed += other[chance.randint(0, len(other)) :]
            case _:
                changed[at : at + 1] = bytes(each ^ (1 << chance.randrange(8)) for each in changed[at : at + 1])
    return bytes(changed)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("text", [EVERYTHING, OLDER], ids=["proto3", "proto2"])
def test_a_changed_record_decodes_as_by_google_or_is_refused(text: str) -> None:
    accepted = refused = 0

    @_SETTINGS
    @given(st.lists(messages(descriptor_of(text), 12), min_size=1, max_size=3), st.integers())
    def check(written: list[Message], seed: int) -> None:
        nonlocal accepted, refused
        chance, originals = random.Random(seed), [each.SerializeToString() for each in written]
        values = [_changed(value, originals, chance) for value in originals for _ in range(10)]
        decoded = decode(reader_of(text), *values)
        decoded.rows.validate(full=True)
        bad = {each.index: each.reason for each in decoded.bad}
        found = iter(rows(decoded))
        for at, value in enumerate(values):
            expected = _expected(text, value)
            if at in bad:
                assert expected is None or any(re.search(each, bad[at]) for each in _STRICTER), (value, bad[at])
                refused += 1
            else:
                row = next(found)
                assert expected is not None, (value, row)
                assert same(row, expected), (value, row, expected)
                accepted += 1
        assert next(found, None) is None

    check()
    assert min(accepted, refused) > 0, (accepted, refused)


def test_both_ways_find_the_same_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [b"\x0b\x08\x01\x0c", b"\x0b\x13\x14\x0c", b"\x0b\x13\x0c\x14", b"\x0b", b"\x0c", b"\x08", b"\x0f"]

    @settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=examples(100))
    @given(st.lists(st.binary(max_size=12) | st.lists(st.sampled_from(groups), max_size=3).map(b"".join), max_size=5))
    def check(values: list[bytes]) -> None:
        found = []
        for few in (0, 1_000):
            monkeypatch.setattr(wire, "FEW", few)
            faults = Faults()
            tokens = tokens_of(messages_of(pa.array(values, pa.binary())), faults)
            good = ~np.isin(tokens.row, list(faults.reasons))
            kept = tokens.take(good)
            kept = kept.take(np.argsort(kept.row, kind="stable"))
            has_value = np.isin(kept.wire, (walk.VARINT, walk.LENGTH))
            place = np.where(kept.wire == walk.VARINT, 0, kept.at)
            columns = (kept.row, kept.number, kept.wire, np.where(has_value, kept.value, 0), place)
            found.append((faults.reasons, *(column.tolist() for column in columns)))
        assert found[0] == found[1]

    check()


_ONE: Final = """
syntax = "proto3"; package t; message Part { int32 n = 1; repeated Part parts = 2; }
enum E { Z = 0; Y = 5; } message Inner { string s = 1; repeated fixed32 f = 2; }
message All { int32 n = 1; string s = 2; repeated sint64 packed = 3; Inner inner = 4; map<string, int32> m = 5;
  bool b = 6; E e = 7; repeated Inner inners = 8; uint32 u = 9; repeated double d = 10; }
"""
_HUGE: Final = b"\xff\xff\xff\xff\x07"


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\x08", "the message ends too early"),
        (b"\x88", "the message ends too early"),
        (b"\x12\x05abc", "the message ends too early"),
        (b"\x0d\0\0\0", "the message ends too early"),
        (b"\x09" + bytes(7), "the message ends too early"),
        (b"\x12" + _HUGE, "the message ends too early"),
        (b"\x12" + b"\xff" * 9 + b"\x01", "the message ends too early"),
        (b"\x12" + b"\xff" * 9 + b"\x7f", "a number has more than 64 bits"),
        (b"\x12" + b"\xff" * 11, "a number has more than 64 bits"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "a number has more than 64 bits"),
        (b"\x12\x81\x80\x80\x80\x80\x00a", "the message ends too early"),
        (b"\0\0", "a key that is not of a field"),
        (b"\x07", "a key that is not of a field"),
        (b"\x88\x80\x80\x80\x80\x01\x05", "a key that is not of a field"),
        (b"\x88\x80\x80\x80\x80\x00\x05", "a key that is not of a field"),
        (b"\xf8\xff\xff\xff\x1f\x05", "a key that is not of a field"),
        (b"\x7b" * 65 + b"\x7c" * 65, "groups nested deeper than 64 levels"),
        (b"\x7b\x08\x01", "a group that does not end"),
        (b"\x7c", "the end of a group that did not begin"),
        (b"\x7b\x74", "the end of a group that did not begin"),
        (b"\x0b\x0c", "n: not written with the type that the schema gives"),
        (b"\x0d\0\0\0\0", "n: not written with the type that the schema gives"),
        (b"\x0a\0", "n: not written with the type that the schema gives"),
        (b"\x08\x80\x80\x80\x80\x08", "n: outside of int32"),
        (b"\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "u: outside of uint32"),
        (b"\x30\x02", "b: outside of bool"),
        (b"\x38\x01", "e: a number without a name"),
        (b"\x38\x06", "e: a number without a name"),
        (b"\x12\x02a\xff", "s: not UTF-8"),
        (b"\x12\x03\xed\xa0\x80", "s: not UTF-8"),
        (b"\x1a\x02\x02\x80", "packed: the message ends too early"),
        (b"\x1a\x0b" + b"\xff" * 10 + b"\x01", "packed: a number has more than 64 bits"),
        (b"\x52\x09" + bytes(9), "d: the message ends too early"),
        (b"\x22\x03\x0a\x05a", "inner: the message ends too early"),
        (b"\x22\x05\x12\x03abc", "inner.f: the message ends too early"),
        (b"\x42\x02\x0a\x00\x42\x03\x0a\x01\xff", "inners[].s: not UTF-8"),
        (b"\x2a\x05\x0a\x01\xff\x10\x01", "m[].key: not UTF-8"),
        (b"\x2a\x04\x12\x02\x08\x01", "m[].value: not written with the type that the schema gives"),
        (b"\x2a\x02\x18\x01", "m[]: a field that is neither key nor value"),
    ],
)
def test_each_fault_is_named(value: bytes, reason: str) -> None:
    good = b"\x08\x07"
    decoded = decode(reader_of(_ONE), good, value, good)
    assert [(each.index, each.reason) for each in decoded.bad] == [(1, reason)]
    assert [row["n"] for row in rows(decoded)] == [7, 7]


@pytest.mark.usefixtures("way")
def test_a_fault_does_not_hide_in_the_records_around_it() -> None:
    """A number, text and a length that would go on in the next record."""
    decoded = decode(reader_of(_ONE), b"\x08\xff", b"\x01", b"\x12\x03a", b"bc", b"\x1a\x01\x80", b"\x01")
    assert [each.index for each in decoded.bad] == [0, 1, 2, 3, 4, 5]


@pytest.mark.usefixtures("way")
def test_unknown_fields_are_skipped_also_groups() -> None:
    unknown = b"\xa0\x06\x01" + b"\xa5\x06abcd" + b"\xa1\x06abcdefgh" + b"\xa2\x06\x02\xff\xff"
    nested = b"\x7b" * 64 + unknown + b"\x08\x63" + b"\x7c" * 64
    value = unknown + nested + b"\x08\x07" + nested
    decoded = decode(reader_of(_ONE), value, value + b"\x08\x08")
    assert decoded.bad == ()
    assert [row["n"] for row in rows(decoded)] == [7, 8]


def _number(value: int) -> bytes:
    """Return a number of variable length."""
    return bytes([value]) if value < 0x80 else bytes([0x80 | value & 0x7F]) + _number(value >> 7)


def _timed(*values: bytes) -> tuple[float, list[str]]:
    begin = time.process_time()
    decoded = decode(reader_of(_ONE), *values)
    return time.process_time() - begin, [each.reason for each in decoded.bad]


@pytest.mark.search(5)
def test_a_hundred_megabytes() -> None:
    size = 100_000_000
    long = (
        b"\x12"
        + bytes([0x80 | size & 0x7F, 0x80 | size >> 7 & 0x7F, 0x80 | size >> 14 & 0x7F, size >> 21])
        + b"a" * size
    )
    decoded = decode(reader_of(_ONE), long)
    assert decoded.rows["s"][0].as_buffer().size == size
    for value, reason in (
        (b"\x08\x01" * (size // 2), "more than 1,000,000 fields"),
        (b"\xa0\x06\x01" * (size // 3), "more than 1,000,000 fields"),
        (b"\x7b\x7c" * (size // 2), "more than 1,000,000 fields"),
        (b"\x7b" * size, "groups nested deeper than 64 levels"),
        (b"\xff" * size, "a key that is not of a field"),
        (long[:-1], "the message ends too early"),
    ):
        seconds, reasons = _timed(value)
        assert reasons == [reason]
        assert seconds < 20, (reason, seconds)


def test_one_record_with_very_many_fields_does_not_slow_the_others_down() -> None:
    """Steps of all messages would be as many as the fields of the longest."""
    seconds, reasons = _timed(*[b"\x08\x01\x12\x01a"] * 20_000, b"\x42\x02\x0a\x00" * 200_000)
    assert not reasons
    assert seconds < 10, seconds


@pytest.mark.usefixtures("way")
def test_the_fields_of_a_message_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "MOST_FIELDS", 10)
    most = b"\x7b" + b"\x08\x01" * 7 + b"\x7c" + b"\x08\x07"
    decoded = decode(reader_of(_ONE), most, most + b"\x08\x01", b"\x42\x02\x0a\x00" * 11)
    assert [row["n"] for row in rows(decoded)] == [7]
    assert [each.index for each in decoded.bad] == [1, 2]


def test_a_group_with_very_many_fields() -> None:
    seconds, reasons = _timed(b"\x7b" + b"\x08\x01" * 500_000 + b"\x7c", b"\x08\x01")
    assert not reasons
    assert seconds < 10, seconds


def test_a_message_of_a_deeper_recursion_than_its_columns() -> None:
    """Google's parser refuses more than 100 levels. Here only those that have columns are parsed."""
    text = 'syntax = "proto3"; package t; message Part { Part part = 1; } message All { Part part = 1; int32 n = 2; }'
    value = b""
    for _ in range(5_000):
        size = len(value)
        value = (
            b"\x0a"
            + (bytes([size]) if size < 128 else bytes([0x80 | size & 0x7F, 0x80 | size >> 7 & 0x7F, size >> 14]))
            + value
        )
    decoded = decode(reader_of(text, as_bytes=frozenset({"t.Part"})), value + b"\x10\x05")
    assert [row["n"] for row in rows(decoded)] == [5]


def test_all_records_of_a_batch_are_bad() -> None:
    decoded = decode(reader_of(_ONE), *[b"\x08"] * 1_000)
    assert (len(decoded.rows), len(decoded.bad)) == (0, 1_000)
