"""The behaviours of every format. Derive from `FormatCompliance`; three methods give values.

class TestMyFormat(FormatCompliance):
    def make_format(self): ...
    def encode(self, numbers): ...  # one value for each number, which an int64 column `n` then has
    def bad_values(self): ...       # values that do not decode
"""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from collections.abc import Sequence
from typing import ClassVar, Final

import pyarrow as pa

from connectors.api.decoding import ROW, Decoded, Format
from connectors.testing.sources import MILLION, environment

_IN_A_TASK: Final = """
import pickle, sys
format, values = pickle.load(sys.stdin.buffer)
decoded = format.decode(values)
sys.stdout.buffer.write(pickle.dumps((decoded.rows, decoded.bad, decoded.records)))
"""


class FormatCompliance:
    """Each test is one behaviour. pytest finds the tests of a subclass."""

    column: ClassVar[str] = "n"
    """The column that holds a value's number."""
    most_rows: ClassVar[int] = 3
    """Rows that a value of `encode_several` may have."""

    def make_format(self) -> Format:
        """Return a format whose schema has the column."""
        raise NotImplementedError

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        """Return a value for each number."""
        raise NotImplementedError

    def bad_values(self) -> Sequence[bytes]:
        """Return values that do not decode. Empty only if every value decodes."""
        raise NotImplementedError

    def encode_several(self, groups: Sequence[Sequence[int]]) -> Sequence[bytes]:
        """Return a value for each group, with one row for each of its numbers. Empty if a value has one row at most."""
        return ()

    def test_each_value_is_a_row_in_order(self) -> None:
        """Without bad values there are as many rows as values."""
        decoded = self._decode(self.encode(range(1_000)))
        assert not decoded.bad
        assert decoded.rows.column(self.column).to_pylist() == list(range(1_000))

    def test_rows_have_the_declared_schema(self) -> None:
        """Also where there are none."""
        schema = self.make_format().schema
        for values in ([], self.encode(range(10)), self.bad_values()):
            assert self._decode(values).rows.schema.equals(schema)

    def test_each_bad_value_is_named_and_no_other(self) -> None:
        """The good values around a bad one are rows, in their order."""
        bad = self.bad_values()
        first, *others = self.encode(range(len(bad) + 1))
        values = [first, *(each for pair in zip(bad, others, strict=True) for each in pair)]
        decoded = self._decode(values)
        assert [each.index for each in decoded.bad] == [at for at, each in enumerate(values) if each in bad]
        assert all(each.reason for each in decoded.bad)
        assert decoded.rows.column(self.column).to_pylist() == list(range(len(bad) + 1))

    def test_rows_of_one_value_are_in_order_and_numbered(self) -> None:
        """A bad value between two values has no row, and each row names its own value."""
        groups = [group[: self.most_rows] for group in ([1], [2, 3, 4], [5], [6, 7])]
        values = list(self.encode_several(groups))
        if not values:
            assert ROW not in self.make_format().schema.names, "the schema has the column _row: override encode_several"
            return
        bad = list(self.bad_values()[:1])
        decoded = self._decode([values[0], *bad, *values[1:]])
        numbers: list[int] = []
        rows: list[int] = []
        records: list[int] = []
        for at, group in enumerate(groups):
            numbers += group
            rows += range(len(group))
            records += [at + len(bad) * (at > 0)] * len(group)
        assert decoded.rows.column(self.column).to_pylist() == numbers
        assert decoded.rows.column(ROW).to_pylist() == rows
        assert decoded.records is not None
        assert decoded.records.to_pylist() == records
        assert [each.index for each in decoded.bad] == list(range(1, 1 + len(bad)))

    def test_bad_values_alone(self) -> None:
        """A batch may have no good value."""
        bad = self.bad_values()
        decoded = self._decode(bad)
        assert decoded.rows.num_rows == 0
        assert [each.index for each in decoded.bad] == list(range(len(bad)))

    def test_a_value_does_not_depend_on_its_neighbours(self) -> None:
        """Batches end elsewhere in a replay."""
        values = [*self.encode(range(50)), *self.bad_values(), *self.encode(range(50, 100))]
        whole = self._decode(values)
        for size in (1, 7, len(values)):
            chunks = [values[at : at + size] for at in range(0, len(values), size)]
            parts = [self._decode(chunk) for chunk in chunks]
            rows = pa.Table.from_batches([each.rows for each in parts], schema=whole.rows.schema)
            assert rows.combine_chunks().equals(pa.Table.from_batches([whole.rows]).combine_chunks())
            bad = [at * size + each.index for at, part in enumerate(parts) for each in part.bad]
            assert bad == [each.index for each in whole.bad]
            counts = map(len, chunks)
            found = [_records(part, count) for part, count in zip(parts, counts, strict=True)]
            records = [at * size + place for at, places in enumerate(found) for place in places]
            assert records == _records(whole, len(values))

    def test_a_slice_of_a_column(self) -> None:
        """An Arrow array may begin inside its buffers."""
        values = pa.array(self.encode(range(100)), pa.binary()).slice(40, 20)
        assert self.make_format().decode(values).rows.column(self.column).to_pylist() == list(range(40, 60))

    def test_nulls_and_any_bytes_raise_nothing(self) -> None:
        """A record may have no value, and a producer may send anything."""
        chance = random.Random(22)
        values = [None, b"", b"\0", b"\xff" * 100, *(chance.randbytes(chance.randrange(200)) for _ in range(300))]
        values += [each[: chance.randrange(len(each) + 1)] for each in self.encode(range(100))]
        decoded = self.make_format().decode(pa.array(values, pa.binary()))
        found = _records(decoded, len(values))
        assert found == sorted(found)
        others = [*(each.index for each in decoded.bad), *decoded.omitted]
        assert sorted([*set(found), *others]) == list(range(len(values))), "each record is rows, bad or omitted"
        if len(set(found)) < len(found):
            assert pa.types.is_int32(decoded.rows.schema.field(ROW).type)

    def test_another_process_decodes_the_same(self) -> None:
        """A format goes to tasks by pickle."""
        values = pa.array([*self.encode(range(100)), *self.bad_values()], pa.binary())
        given = pickle.dumps((self.make_format(), values))
        done = subprocess.run(
            [sys.executable, "-c", _IN_A_TASK], input=given, env=environment(), capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        here = self.make_format().decode(values)
        rows, bad, records = pickle.loads(done.stdout)
        assert rows.equals(here.rows)
        assert bad == here.bad
        assert records == here.records

    def test_a_million_values(self) -> None:
        """The hot path is whole columns."""
        decoded = self._decode(self.encode(range(MILLION)))
        assert decoded.rows.num_rows == MILLION
        assert decoded.rows.column(self.column)[MILLION - 1].as_py() == MILLION - 1

    def _decode(self, values: Sequence[bytes]) -> Decoded:
        return self.make_format().decode(pa.array(values, pa.binary()))


def _records(decoded: Decoded, count: int) -> list[int]:
    """Return by row the index of its record. `count`: records."""
    found: list[int] = decoded.record_indices(count).tolist()
    assert len(found) == decoded.rows.num_rows, "each record is rows, bad or omitted"
    return found
