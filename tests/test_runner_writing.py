"""The digest of R4: the same rows give the same sum in any order and any cut into batches."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.writing import CountTask, Digest

_hashes = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50)


def _batch(hashes: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([str(h) for h in hashes], pa.string()), pa.array(hashes, pa.int64())], names=["value", "_eos_hash"]
    )


@given(hashes=_hashes, cut=st.integers(0, 50))
def test_order_and_batches_do_not_matter(hashes: list[int], cut: int) -> None:
    whole, parts = Digest([0]), Digest([0])
    assert whole.take(_batch(hashes)).schema.names == ["value"]
    for part in (hashes[cut:][::-1], hashes[:cut]):
        parts.take(_batch(part))
    assert (parts.values, parts.rows) == (whole.values, whole.rows) == ([sum(hashes) % 2**64], len(hashes))


def test_the_task_of_a_replay_counts_and_writes_nothing() -> None:
    (counted,) = CountTask(1)(iter([_batch([1, 2]), _batch([2**63 - 1])]))
    assert counted.to_pylist() == [{"hash": 0, "rows": 3, "digest": str((2**63 + 2) % 2**64)}]
