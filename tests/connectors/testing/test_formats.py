"""The suite for formats: JSON passes, and each wrong format fails a test of it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence

import pyarrow as pa
import pytest

from connectors.api.format import Decoded, Format, Undecodable
from connectors.formats.ddl import parse_ddl
from connectors.formats.json_values import JsonFormat
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
    assert behaviours == {*WRONG.values(), "test_bad_values_alone"}
    assert len({*itertools.chain(WRONG.values())}) == len(behaviours) - 1
