"""Of rows with equal keys the newest one, against a dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.log import newest
from connectors.log.newest import Newest, Order
from eos.errors import BadRowError

_ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", "ü"]), st.integers(0, 20), st.booleans()), max_size=60
)
_ORDER: Final[Order] = [("offset", "ascending"), ("gone", "descending")]
_ORIGINS: Final = {"topic": "topics", "partition": "partitions"}


def batch(**columns: Sequence[object]) -> pa.RecordBatch:
    """With what is missing as it is of no matter."""
    rows = len(columns["k"])
    rest = {"offset": [0] * rows, "gone": [False] * rows, "topic": ["t"] * rows, "partition": [0] * rows}
    return pa.record_batch({**rest, **columns})


@given(st.lists(_ROWS, max_size=5), st.integers(1, 50))
def test_one_row_for_each_key_and_that_the_greatest(
    parts: list[list[tuple[int, str, int, bool]]], at_least: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(newest, "_AT_LEAST", at_least)
        found = Newest(["k", "l"], _ORDER, _ORIGINS)
        expected: dict[tuple[int, str], tuple[int, bool]] = {}
        for part in parts:
            columns = list(zip(*part, strict=True)) or [(), (), (), ()]
            kinds = [pa.int64(), pa.string(), pa.int64(), pa.bool_()]
            arrays = [pa.array(list(column), kind) for column, kind in zip(columns, kinds, strict=True)]
            rows = pa.record_batch(arrays, names=["k", "l", "offset", "gone"])
            rows = rows.append_column("topic", pa.array(["t"] * len(part), pa.string()))
            found.add(rows.append_column("partition", pa.array([0] * len(part), pa.int32())))
            for k, text, offset, gone in part:
                expected[k, text] = max(expected.get((k, text), (-1, False)), (offset, not gone))
        left = [tuple(row.values()) for batch in found.rows() for row in batch.to_pylist()]
    assert len(left) == len(expected)
    assert {(k, text): (offset, not gone) for k, text, offset, gone, _, _ in left} == expected


def test_old_rows_are_let_go_of_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest, "_AT_LEAST", 100)
    found = Newest(["k"], _ORDER, _ORIGINS)
    for start in range(0, 10_000, 50):
        found.add(batch(k=[n % 10 for n in range(50)], offset=list(range(start, start + 50))))
        assert found._rows <= 150
    (rows,) = found.rows()
    assert sorted(rows.column("offset").to_pylist()) == list(range(9_990, 10_000))


@pytest.mark.parametrize("at_least", [1, 100])
def test_h16_rows_of_one_key_from_two_partitions_do_not_compare(monkeypatch: pytest.MonkeyPatch, at_least: int) -> None:
    """As after partitions were added to a topic: the newer one may have the smaller offset."""
    monkeypatch.setattr(newest, "_AT_LEAST", at_least)
    found = Newest(["k", "l"], _ORDER, _ORIGINS)
    found.add(batch(k=[1, 2], l=["b", "b"], offset=[1000, 1000], partition=[0, 0]))
    found.rows()

    def newer() -> None:
        found.add(batch(k=[1, 4], l=["b", "b"], offset=[3, 3], partition=[2, 2]))
        found.rows()

    with pytest.raises(BadRowError, match="key k 1, l b comes from partitions 0 and 2, whose offsets do not compare"):
        newer()


@pytest.mark.parametrize("at_least", [1, 100])
@pytest.mark.parametrize("topics", [["v1", "v2"], ["v2", "v1"]])
def test_h16_rows_of_one_key_from_two_topics_do_not_compare(
    monkeypatch: pytest.MonkeyPatch, topics: list[str], at_least: int
) -> None:
    """Kafka's partitioner puts a key into the same partition of each: the number alone tells nothing."""
    monkeypatch.setattr(newest, "_AT_LEAST", at_least)
    found = Newest(["k"], _ORDER, _ORIGINS)
    found.add(batch(k=[2, 2], offset=[6, 7], topic=["v0", "v0"], partition=[3, 3]))
    found.add(batch(k=[1], offset=[1_000_000], topic=topics[:1], partition=[3]))

    def newer() -> None:
        found.add(batch(k=[3, 1], offset=[5, 5], topic=["v0", topics[1]], partition=[3, 3]))
        found.rows()

    with pytest.raises(BadRowError, match="key k 1 comes from topics v1 and v2, whose offsets do not compare"):
        newer()


def test_keys_of_many_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each from its own: what was let go of on the way does not matter."""
    monkeypatch.setattr(newest, "_AT_LEAST", 100)
    found = Newest(["k"], _ORDER, _ORIGINS)
    for offset in range(20):
        keys = range(offset % 3, 60, 3)
        found.add(batch(k=list(keys), offset=[offset] * len(keys), topic=[f"v{k % 7}" for k in keys]))
    left = [row for rows in found.rows() for row in rows.to_pylist()]
    assert {row["k"]: (row["topic"], row["offset"]) for row in left} == {
        k: (f"v{k % 7}", max(offset for offset in range(20) if offset % 3 == k % 3)) for k in range(60)
    }
    assert len(left) == 60


def test_more_text_than_arrow_holds_in_one_piece() -> None:
    text = pa.repeat(pa.scalar("x" * 500_000), 1000)  # 5 times that is beyond 2 GiB; the batches share it
    found = Newest(["k"], _ORDER, _ORIGINS)
    for number in range(5):
        rows = batch(k=[n % 10 for n in range(1000)], offset=list(range(number * 1000, number * 1000 + 1000)))
        found.add(rows.append_column("text", text))
    assert sorted(row for each in found.rows() for row in each.column("offset").to_pylist()) == list(range(4990, 5000))


def test_names_of_its_own_are_nobody_elses() -> None:
    names = ["row", "origin", "0", "row_max", "origin_min"]
    found = Newest(names, _ORDER, _ORIGINS)
    found.add(batch(k=[1, 1], offset=[7, 5], **{name: [1, 1] for name in names}))
    assert [each.column("offset").to_pylist() for each in found.rows()] == [[7]]
