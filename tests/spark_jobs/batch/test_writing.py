"""A task writes and prepares, or leaves nothing; the digest of R4 is the same in any order of the rows."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.log.place import LogPlace
from connectors.sql.sqlite.sink import SqliteSink
from eos.errors import BadRecordError, TargetError
from spark_jobs.batch.stopwatch import Stopwatch
from spark_jobs.batch.writing import CountTask, Digest, Share, open_writer, write_and_prepare
from tests.twophase_values import committable, scope
from twophase.ids import TransactionId, sink_key
from twophase.values import Committable
from wal.testing import files_in

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


def test_r4_each_sink_has_the_digest_of_its_own_columns() -> None:
    shares = [Share(cast(Any, None), (0,), digest) for digest in (1, 0, 1)]
    written = [committable(scope(0), task) for task in range(3)]
    assert [each.digest for each in Digest([5, 7]).on(shares, written)] == [7, 5, 7]


def test_a_share_has_the_columns_in_its_sinks_order() -> None:
    """Of several sinks that share tasks, one may take the same columns in another order."""
    rows = pa.RecordBatch.from_pydict({"_1": ["x"], "_2": [1], "_3": [True]})
    share = Share(cast(Any, SimpleNamespace(columns=["id", "name"])), (1, 0))
    assert share.of(rows).to_pydict() == {"id": [1], "name": ["x"]}


_ROWS = pa.RecordBatch.from_pydict({"n": [1, 2, 3]})


@pytest.fixture
def shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Share]:
    """Three sinks with a log each, whose rows one task writes."""
    context = SimpleNamespace(partitionId=lambda: 0, taskAttemptId=lambda: 11)
    monkeypatch.setattr("spark_jobs.batch.writing.TaskContext.get", lambda: context)
    made = []
    for name in ("a", "b", "c"):
        with sqlite3.connect(tmp_path / f"{name}.db") as database:
            database.execute("CREATE TABLE t (n INTEGER)")
        sink = SqliteSink(name, tmp_path / f"{name}.db", "t", LogPlace(tmp_path / "log" / name))
        made.append(Share(sink.open(_ROWS.schema), (0,)))
    return made


def test_r5_an_error_of_the_rows_leaves_nothing_in_any_sink(shares: list[Share], tmp_path: Path) -> None:
    begun: list[int] = []

    def rows() -> Iterator[pa.RecordBatch]:
        yield _ROWS
        begun.append(len(files_in(tmp_path / "log")))
        raise BadRecordError("not JSON")

    with pytest.raises(BadRecordError):
        write_and_prepare(scope(0), shares, rows(), Stopwatch.of(3))
    assert begun == [3], "each sink has begun a segment"
    assert files_in(tmp_path / "log") == []


def test_r5_a_task_prepares_its_rows_in_every_sink(shares: list[Share], tmp_path: Path) -> None:
    written = write_and_prepare(scope(0), shares, iter([_ROWS, _ROWS]), Stopwatch.of(3), first=4)
    assert [each.rows for each in written] == [6, 6, 6]
    named = [each.transaction for each in written]
    assert [(t.scope, t.sink, t.task) for t in named] == [(scope(0), sink_key(name), 4) for name in ("a", "b", "c")]
    assert {t.spark_attempt for t in named} == {11}, "H1: Spark's attempt id, which no other attempt of this run has"
    assert len({t.task_attempt for t in named}) == 3, "H33: random bits, which no attempt of another run has"
    assert len(files_in(tmp_path / "log")) == 3


def test_tasks_and_planners_load_no_spec_and_planners_no_pandas() -> None:
    """Each of Spark's Python processes would take a quarter of a second for either, five of them in a row."""
    of_planners = ["connectors.kafka.source", "spark_jobs.query.source"]
    sinks = [f"connectors.{name}.sink" for name in ("kafka.sink", "sql.mysql", "sql.postgres", "sql.sqlite")]
    modules = ("batch.chaining", "batch.writing", "batch.dead_letters", "query.tasks")
    of_tasks = [*sinks, *(f"spark_jobs.{name}" for name in modules)]
    code = f"import sys, {', '.join(of_planners)}; print('pandas' in sys.modules)\n"
    code += f"import {', '.join(of_tasks)}; print('connectors.spec' in sys.modules or 'pydantic' in sys.modules)"
    folder = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    assert done.stdout.split() == ["False", "False"]


class _Sloppy:
    """A writer that acknowledges what it is told to."""

    aborted = 0

    def __init__(self, answer: Any, transaction: TransactionId) -> None:
        self._answer, self._transaction = answer, transaction

    def write(self, batch: pa.RecordBatch) -> None:
        if isinstance(self._answer, BaseException):
            raise self._answer

    def prepare(self) -> Any:
        rows = self._answer
        return rows(self._transaction) if callable(rows) else rows

    def abort(self) -> None:
        type(self).aborted += 1
        raise ValueError("nothing to abort")


_WRONG = {
    "fewer rows": (lambda given: Committable(given, rows=2), "acknowledged 2 rows, and took 3"),
    "more rows": (lambda given: Committable(given, rows=4), "acknowledged 4 rows, and took 3"),
    "no number": (lambda given: Committable(given, rows=cast(Any, "3")), "acknowledged '3' rows"),
    "another attempt": (lambda given: Committable(replace(given, task_attempt=7), rows=3), "and was given"),
    "nothing": (None, "acknowledged a NoneType, not a Committable"),
}


@pytest.mark.parametrize("case", _WRONG)
def test_r5_a_wrong_acknowledgement_of_one_sink_is_an_error_of_the_task(
    shares: list[Share], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    answer, words = _WRONG[case]
    monkeypatch.setattr(_Sloppy, "aborted", 0)

    def writer_of(sink: Any, transaction: TransactionId) -> Any:
        return _Sloppy(answer, transaction) if sink.name == "b" else open_writer(sink, transaction)

    with pytest.raises(TargetError, match=f"sink b, task 0: the writer .*{words}"):
        write_and_prepare(scope(0), shares, iter([_ROWS]), Stopwatch.of(3), writer_of=writer_of)
    assert _Sloppy.aborted == 1


@pytest.mark.parametrize(
    "error", [SystemExit(0), KeyboardInterrupt(), ValueError("x" * 10_000_000)], ids=lambda error: type(error).__name__
)
def test_r5_a_writer_that_ends_the_process_leaves_nothing_in_any_sink(
    shares: list[Share], tmp_path: Path, error: BaseException
) -> None:
    def writer_of(sink: Any, transaction: TransactionId) -> Any:
        return _Sloppy(error, transaction) if sink.name == "b" else open_writer(sink, transaction)

    with pytest.raises(type(error)):
        write_and_prepare(scope(0), shares, iter([_ROWS]), Stopwatch.of(3), writer_of=writer_of)
    assert not files_in(tmp_path / "log")
