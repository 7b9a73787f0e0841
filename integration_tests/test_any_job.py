"""A streaming job of one's own, with sources that are not ours, through `foreachBatch(ExactlyOnce(spec))`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from integration_tests.harness.faults import Faults
from integration_tests.harness.oracle import SinkTable, compare
from integration_tests.harness.pipeline_process import PROJECT, PipelineProcess
from integration_tests.harness.workload import Row
from twophase.codec import decode_head
from twophase.local_head import LocalHead

_JOB = PROJECT / "examples" / "any_job" / "copy_files.py"
_FILES = 8
_ROWS = 100  # of a file, which is a batch

Start = Callable[[Sequence[str]], PipelineProcess]


@pytest.fixture
def start(tmp_path: Path, database: str, request: pytest.FixtureRequest) -> Start:
    """Starts the example job on `tmp_path/files`, with fault points armed; every process is ended at the end."""
    (tmp_path / "sink.yaml").write_text((_JOB.parent / "sink.yaml").read_text())
    started: list[PipelineProcess] = []

    def start(arm: Sequence[str] = ()) -> PipelineProcess:
        faults = Faults(tmp_path / f"faults-{len(started)}")
        for stem in arm:
            faults.arm(stem)
        arguments = [str(tmp_path / "sink.yaml"), str(tmp_path / "spark"), str(tmp_path / "files")]
        log = tmp_path / f"run-{len(started)}.log"
        environment = {"SINK_URL": database}
        started.append(PipelineProcess(arguments, tmp_path, log, faults, environment, program=[str(_JOB)]))
        request.addfinalizer(started[-1].kill)
        return started[-1]

    return start


def _files(folder: Path) -> Counter[Row]:
    """Write the files; returns the rows that must come of them."""
    folder.mkdir()
    rows: Counter[Row] = Counter()
    for file in range(_FILES):
        ids = range(file * _ROWS, (file + 1) * _ROWS)
        added: list[Row] = [(number, f"w{number % 7}", f"row {number} of file {file}") for number in ids]
        rows.update(added)
        lines = [json.dumps(dict(zip(("id", "word", "payload"), row, strict=True))) for row in added]
        (folder / f"{file}.json").write_text("\n".join(lines))
    return rows


@pytest.mark.timeout(900)
def test_killed_at_every_point(start: Start, database: str, tmp_path: Path) -> None:
    table = SinkTable(database, "records")
    table.create()
    expected = _files(tmp_path / "files")
    points = ("writing@0", "prepared@0", "before-decide@1", "after-decide@2", "after-commits@3", "closed@4")
    for stem in points:
        process = start([stem])
        process.await_point(stem)
        assert compare(expected, table.rows()).clean, stem
        process.kill()
    start([]).succeed()
    verdict = compare(expected, table.rows())
    assert verdict.exact, str(verdict)
    assert verdict.in_sink == _FILES * _ROWS
    read = LocalHead(tmp_path / "checkpoints" / "copy-files").read()
    assert read is not None
    head = decode_head(read.value)
    assert (head.epoch, head.committed) == (len(points) + 1, _FILES - 1)
    assert table.prepared(head.incarnation) == []


@pytest.mark.timeout(300)
def test_a_checkpoint_that_is_not_the_heads_is_refused(start: Start, database: str, tmp_path: Path) -> None:
    table = SinkTable(database, "records")
    table.create()
    expected = _files(tmp_path / "files")
    start([]).succeed()
    (tmp_path / "spark").rename(tmp_path / "gone")
    process = start([])
    assert process.wait() != 0
    assert "Spark's checkpoint is of query" in process.output()
    assert compare(expected, table.rows()).exact
