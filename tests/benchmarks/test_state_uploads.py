"""The benchmark of state backends, with a small state: changes are fewer bytes than files."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.state_uploads import BACKENDS, measure, session
from wal.local import LocalStorage


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        found = session(1)
    yield found
    found.stop()


def test_a_changelog_sends_less_than_files(spark: SparkSession, tmp_path: Path) -> None:
    found = {}
    for backend in BACKENDS:
        folder = tmp_path / backend
        found[backend] = measure(spark, backend, 2_000, 20, 4, folder, LocalStorage(folder / "store"))
        assert len(found[backend].sent) == 4
        assert found[backend].sent[0] > 100_000, "the whole state"
    files, changes = (statistics.median(found[backend].sent[1:]) for backend in BACKENDS)
    print(f"bytes of a later checkpoint: files {files:,.0f}, changes {changes:,.0f}")
    assert 0 < changes < files < found["rocksdb"].sent[0]
