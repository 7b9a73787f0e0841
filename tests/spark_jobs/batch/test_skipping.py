"""What `on_bad_record: skip` leaves out is counted in each checkpoint, and has a limit there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from connectors.spec import SpecMistakesError, load_spec
from connectors.spec.settings import CheckpointSettings
from eos.errors import BadRecordError
from spark_jobs.batch import dead_letters
from spark_jobs.batch.acks import acknowledgement, committables, measured, refused, skipped
from spark_jobs.batch.chaining import Chain, _ChainedTask
from spark_jobs.batch.skipping import Skipping
from spark_jobs.batch.stopwatch import Stopwatch
from spark_jobs.query.marks import has_marks
from twophase.values import OffsetRange

SPEC = """\
pipeline: p
checkpoint: {location: state%s}
sources:
  - {name: s, connector: kafka, bootstrap_servers: a, topics: [t], format: {type: raw}, on_bad_record: skip}
sinks:
  - {name: out, from: s, connector: mysql, url: "mysql+pymysql://u:p@h/d", table: t, commit: two-phase}
"""


def _settings(folder: Path, more: str) -> CheckpointSettings:
    path = folder / "spec.yaml"
    path.write_text(SPEC % more)
    return load_spec(path, {}).checkpoint


@pytest.mark.parametrize(
    ("written", "records", "allowed"),
    [
        ("", 10**9, 1000),
        (", max_skipped: 7", 10**9, 7),
        (", max_skipped: 0", 10**9, 0),
        (", max_skipped: 5%", 1000, 50),
        (", max_skipped: 5%", 1001, 51),
        (", max_skipped: 5%", 1, 1),
        (", max_skipped: 0.1 %", 10**6, 1000),
        (", max_skipped: 100%", 12, 12),
        (", max_skipped: 0%", 12, 0),
    ],
)
def test_the_limit_is_a_number_or_a_share(tmp_path: Path, written: str, records: int, allowed: int) -> None:
    assert _settings(tmp_path, written).skippable(records) == allowed


@pytest.mark.parametrize("written", ["-1", "101%", "5 percent", "1.5", "true", "'%'", "[]", "99999999999"])
def test_another_limit_is_a_mistake(tmp_path: Path, written: str) -> None:
    with pytest.raises(SpecMistakesError, match=r"checkpoint.max_skipped: .*allowed: a number of records from 0"):
        _settings(tmp_path, f", max_skipped: {written}")


@dataclass
class _Source:
    """Of as many batches as there are counts; of each so many are bad."""

    name: str = "s"
    bad: Sequence[int] = ()
    rejects_bad_records: bool = False
    skips_bad_records: bool = True
    split_above: int | None = None
    join_below: int = 0

    def read(self, ranges: Sequence[OffsetRange], on_bad_records: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        for count in self.bad:
            on_bad_records(count)
            yield pa.RecordBatch.from_pylist([{"id": count, "other": 0}])


RANGES = {"s": [OffsetRange("t/0", 0, 600), OffsetRange("t/1", 0, 400)]}


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ((2, 30), {"s": 30}),
        ((4, 60), {"s": 30}),  # a stage has run twice
        ((1, 30), {"s": 30}),  # one task has not read to its end
        ((2, 0), {}),
        ((None, None), {}),
        (None, {}),
    ],
)
def test_the_count_is_that_of_the_job(
    monkeypatch: pytest.MonkeyPatch, counts: tuple[int, int] | None, found: dict[str, int]
) -> None:
    asked = []

    def observed(_batch: object, name: str) -> object:
        asked.append(name)
        return counts

    monkeypatch.setattr(dead_letters, "observed", observed)
    others = [
        _Source("dead", skips_bad_records=False, rejects_bad_records=True),
        _Source("strict", skips_bad_records=False),
    ]
    skipping = Skipping.of(cast(Any, [_Source(), *others]), lambda _: 5, 5)
    assert skipping.counted(cast(Any, None), RANGES) == found
    assert asked == ["eos_s"]
    assert [has_marks(cast(Any, each)) for each in (_Source(), *others)] == [True, True, False]


def test_more_than_the_limit_stop_the_pipeline_and_fewer_are_told(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[int] = []

    def allowed(records: int) -> int:
        asked.append(records)
        return 50

    skipping = Skipping.of(cast(Any, [_Source()]), allowed, "5%")
    with caplog.at_level(logging.WARNING, "eos.source"):
        error = skipping.surplus(7, {"s": 51}, RANGES)
        assert isinstance(error, BadRecordError)
        assert not error.retriable
        assert "checkpoint 7 would leave out 51 of 1,000 records of source s" in error.message
        assert "checkpoint.max_skipped (5%)" in error.message
        assert caplog.records == []
        assert skipping.surplus(7, {"s": 50}, RANGES) is None
        assert skipping.surplus(8, {}, RANGES) is None
    assert asked == [1000, 1000]
    assert [each.getMessage() for each in caplog.records] == ["checkpoint 7 leaves out 50 bad records of source s"]


def test_a_task_that_reads_and_writes_acknowledges_what_it_has_left_out() -> None:
    rows: list[dict[str, int]] = []

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows.extend(batch.to_pylist())
        yield acknowledgement((), Stopwatch.of(0))

    sources = [_Source(bad=(2, 0, 3)), _Source(bad=(0, 0)), _Source(bad=(4,))]
    returned: list[pa.RecordBatch] = []
    for source in sources:
        task = _ChainedTask([(Chain(cast(Any, source), ["id"]), write, RANGES["s"])])
        returned += task(iter([pa.RecordBatch.from_pylist([{"number": 0}])]))
    table = pa.Table.from_batches(returned)
    assert [row["id"] for row in rows] == [2, 0, 3, 0, 0, 4]
    assert (skipped(table, "s"), skipped(table, "another")) == (9, 0)
    assert (committables(table), refused(table).num_rows, measured([], table, [])) == ([], 0, ())
