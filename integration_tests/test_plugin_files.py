"""A pipeline from the plugin of files, installed as users have it, that is killed between its steps."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from integration_tests.harness.installed import Installed

_FILES: Final = 8
_RECORDS_OF_FILE: Final = 250
_CHECKPOINT_RECORDS: Final = 300  # so that most checkpoints end within a file
_KILLED_AT: Final = ("planned@0", "prepared@1", "after-decide@2", "applying@3")


pytestmark = pytest.mark.in_turns


@pytest.mark.timeout(1200)
def test_a_pipeline_from_files_is_killed_between_its_steps(installed: Installed, tmp_path: Path) -> None:
    """Every record is one row, whatever was killed."""
    files, target = tmp_path / "files", tmp_path / "target.db"
    files.mkdir()
    for number in range(_FILES):
        _write(files, number)
    with closing(sqlite3.connect(target)) as database:
        database.execute("CREATE TABLE records (n INTEGER, text TEXT, _file TEXT, _at INTEGER)")
    spec = tmp_path / "pipeline.yaml"
    spec.write_text(json.dumps(_spec(files, target)))
    assert "exactly-once" in installed.call(str(installed.eos), "validate", str(spec), cwd=tmp_path)
    for stem in _KILLED_AT:
        process = installed.start(["run", str(spec), "--until-caught-up"], tmp_path, arm=[stem])
        try:
            process.await_point(stem)
        finally:
            process.kill()
        assert max(_rows(target).values(), default=1) == 1, f"a row is there twice after {stem}"
    _write(files, _FILES)  # what arrives later is read, too
    process = installed.start(["run", str(spec), "--until-caught-up"], tmp_path)
    try:
        process.succeed()
    finally:
        process.kill()
    expected = Counter(
        (n, f"text {n}", f"{n // _RECORDS_OF_FILE:03d}.jsonl") for n in range((_FILES + 1) * _RECORDS_OF_FILE)
    )
    assert _rows(target) == expected
    (files / "000.jsonl").write_text("{}\n")
    process = installed.start(["run", str(spec), "--until-caught-up"], tmp_path)
    try:
        process.fail("are not those that were")
    finally:
        process.kill()
    assert _rows(target) == expected


def _write(folder: Path, number: int) -> None:
    numbers = range(number * _RECORDS_OF_FILE, (number + 1) * _RECORDS_OF_FILE)
    partial = folder / f"{number:03d}.partial"
    partial.write_text("".join(json.dumps({"n": n, "text": f"text {n}"}) + "\n" for n in numbers))
    partial.rename(folder / f"{number:03d}.jsonl")


def _rows(target: Path) -> Counter[tuple[int, str, str]]:
    with closing(sqlite3.connect(target)) as database:
        return Counter(database.execute("SELECT n, text, _file FROM records").fetchall())


def _spec(files: Path, target: Path) -> dict[str, object]:
    return {
        "pipeline": "files",
        "checkpoint": {
            "location": "./checkpoints",
            "interval": "0s",
            "max_records_per_checkpoint": _CHECKPOINT_RECORDS,
        },
        "spark": {"master": "local[2]"},
        "sources": [
            {"name": "incoming", "connector": "files", "url": str(files), "schema": "n BIGINT NOT NULL, text STRING"}
        ],
        "sinks": [
            {
                "name": "lake",
                "connector": "sqlite",
                "from": "incoming",
                "path": str(target),
                "table": "records",
                "commit": "write-ahead-log",
            }
        ],
    }
