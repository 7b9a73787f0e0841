"""The suite for formats: JSON passes, and each wrong format fails a test of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from connectors.api.decoding import ROW, Decoded, Format, Undecodable
from connectors.formats.ddl import parse_ddl
from connectors.formats.json_values import JsonFormat
from connectors.formats.outcome import Outcome
from connectors.testing.formats import FormatCompliance


class Compliance(FormatCompliance):
    """JSON, or what is wrong of it."""

    format: Format = JsonFormat(parse_ddl("n BIGINT NOT NULL"))

    def make_format(self) -> Format:
        return self.format

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        return [b'{"n": %d}' % number for number in numbers]

    def bad_values(self) -> Sequence[bytes]:
        return [b"{", b'{"n": "x"}', b'{"n": null}', b"[1]"]


class TestJson(Compliance):
    """A right format passes."""


class Lists:
    """A row for each number of the list in a JSON object. An empty list is bad."""

    schema = pa.schema([("n", pa.int64()), (ROW, pa.int32())])

    def decode(self, values: pa.Array) -> Decoded:
        found = JsonFormat(parse_ddl("n ARRAY<BIGINT> NOT NULL")).decode(values)
        outcome = Outcome(self.schema)
        places = found.record_indices(len(values))
        outcome.bad = {each.index: each.reason for each in found.bad}
        lists = found.rows.column("n")
        outcome.reject(places[pc.equal(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)], "no number")
        of_rows = pc.list_parent_indices(lists).to_numpy()
        outcome.add(places[of_rows], pa.record_batch([lists.flatten(), self.numbers(of_rows)], schema=self.schema), {})
        return outcome.decoded()

    def numbers(self, of_rows: Any) -> pa.Array:
        return pa.array(np.arange(len(of_rows)) - np.searchsorted(of_rows, of_rows), pa.int32())


class ListCompliance(Compliance):
    """Values with several rows."""

    format: Format = Lists()

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        return self.encode_several([[number] for number in numbers])

    def encode_several(self, groups: Sequence[Sequence[int]]) -> Sequence[bytes]:
        return [b'{"n": %s}' % str(list(group)).encode() for group in groups]

    def bad_values(self) -> Sequence[bytes]:
        return [b"{", b'{"n": ["x"]}', b'{"n": []}']


class TestLists(ListCompliance):
    """A right format passes."""


class _NumbersAll(Lists):
    def numbers(self, of_rows: Any) -> pa.Array:
        return pa.array(range(len(of_rows)), pa.int32())


class _SameRecord(Lists):
    def decode(self, values: pa.Array) -> Decoded:
        found = super().decode(values)
        return Decoded(found.rows, found.bad, records=pa.array([0] * found.rows.num_rows, pa.int64()))


@pytest.mark.parametrize("wrong", [_NumbersAll(), _SameRecord()])
def test_wrong_rows_of_one_value_fail_the_suite(wrong: Format) -> None:
    tried = ListCompliance()
    tried.format = wrong
    with pytest.raises(AssertionError):
        tried.test_rows_of_one_value_are_in_order_and_numbered()


class _Wrong:
    """JSON with a fault in `decode`."""

    right = JsonFormat(parse_ddl("n BIGINT NOT NULL"))

    @property
    def schema(self) -> pa.Schema:
        return self.right.schema

    def decode(self, values: pa.Array) -> Decoded:
        return self.right.decode(values)


class _Reverses(_Wrong):
    def decode(self, values: pa.Array) -> Decoded:
        found = self.right.decode(values)
        return Decoded(found.rows.take(pa.array(reversed(range(found.rows.num_rows)), pa.int64())), found.bad)


class _OtherSchema(_Wrong):
    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("n", pa.string())])


class _Loses(_Wrong):
    def decode(self, values: pa.Array) -> Decoded:
        return Decoded(self.right.decode(values).rows)


class _GivesUp(_Wrong):
    def decode(self, values: pa.Array) -> Decoded:
        found = self.right.decode(values)
        if not found.bad:
            return found
        return Decoded(found.rows.slice(0, 0), tuple(Undecodable(at, "bad batch") for at in range(len(values))))


class _BadTogether(_Wrong):
    def decode(self, values: pa.Array) -> Decoded:
        found = self.right.decode(values)
        return Decoded(found.rows, found.bad if len(values) > 1 else ())


class _IgnoresTheOffset(_Wrong):
    def decode(self, values: pa.Array) -> Decoded:
        whole = pa.Array.from_buffers(values.type, len(values), values.buffers())
        return self.right.decode(whole)


class _Raises(_Wrong):
    def decode(self, values: pa.Array) -> Decoded:
        for each in values.to_pylist():
            each.decode()
        return self.right.decode(values)


class _OfThisProcess(_Wrong):
    def decode(self, values: pa.Array) -> Decoded:
        found = self.right.decode(values)
        return Decoded(found.rows, tuple(Undecodable(each.index, str(os.getpid())) for each in found.bad))


class _LosesLargeColumns(_Wrong):
    def decode(self, values: pa.Array) -> Decoded:
        return self.right.decode(values.slice(0, 100_000))


WRONG = {
    _Reverses: "test_each_value_is_a_row_in_order",
    _OtherSchema: "test_rows_have_the_declared_schema",
    _Loses: "test_each_bad_value_is_named_and_no_other",
    _GivesUp: "test_each_bad_value_is_named_and_no_other",
    _BadTogether: "test_a_value_does_not_depend_on_its_neighbours",
    _IgnoresTheOffset: "test_a_slice_of_a_column",
    _Raises: "test_nulls_and_any_bytes_raise_nothing",
    _OfThisProcess: "test_another_process_decodes_the_same",
    _LosesLargeColumns: "test_a_million_values",
}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_a_wrong_format_fails_the_suite(wrong: type[_Wrong]) -> None:
    tried = Compliance()
    tried.format = wrong()
    with pytest.raises((AssertionError, AttributeError, UnicodeDecodeError)):
        getattr(tried, WRONG[wrong])()


def test_each_behaviour_has_a_wrong_format() -> None:
    behaviours = {name for name in vars(FormatCompliance) if name.startswith("test_")}
    elsewhere = {"test_bad_values_alone", "test_rows_of_one_value_are_in_order_and_numbered"}
    assert behaviours == {*WRONG.values(), *elsewhere}
