"""Of rows with equal keys the newest one, against a dictionary."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.log import newest
from connectors.log.newest import Newest

_ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", "ü"]), st.integers(0, 20), st.integers(0, 3)), max_size=60
)


@given(st.lists(_ROWS, max_size=5), st.integers(1, 50))
def test_one_row_for_each_key_and_that_the_greatest(
    parts: list[list[tuple[int, str, int, int]]], at_least: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(newest, "_AT_LEAST", at_least)
        found = Newest(["k", "l"], ["offset", "partition"])
        expected: dict[tuple[int, str], tuple[int, int]] = {}
        for part in parts:
            columns = list(zip(*part, strict=True)) or [[], [], [], []]
            kinds = [pa.int64(), pa.string(), pa.int64(), pa.int32()]
            arrays = [pa.array(list(column), kind) for column, kind in zip(columns, kinds, strict=True)]
            found.add(pa.record_batch(arrays, names=["k", "l", "offset", "partition"]))
            for k, text, offset, partition in part:
                expected[k, text] = max(expected.get((k, text), (-1, -1)), (offset, partition))
        rows = [tuple(row.values()) for batch in found.rows() for row in batch.to_pylist()]
    assert len(rows) == len(expected)
    assert {(k, text): (offset, partition) for k, text, offset, partition in rows} == expected


def test_old_rows_are_let_go_of_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "_AT_LEAST", 100)
    found = Newest(["k"], ["offset"])
    for start in range(0, 10_000, 50):
        found.add(pa.record_batch({"k": [n % 10 for n in range(50)], "offset": list(range(start, start + 50))}))
        assert found._rows <= 150
    (batch,) = found.rows()
    assert sorted(batch.column("offset").to_pylist()) == list(range(9_990, 10_000))
