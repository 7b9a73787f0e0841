"""The copy of the example that the demo runs, and its table."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from connectors.spec import load_spec
from spark_jobs.demo.job import Job
from spark_jobs.demo.place import Place, SqliteTable
from spark_jobs.demo.play import _QUICK, KILLS


class _Driver:
    def __init__(self, _spec: Path, _log: Path, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.killed = False

    def kill(self) -> None:
        self.killed = True


@pytest.fixture
def place(tmp_path: Path) -> Place:
    table = SqliteTable(tmp_path / "eos.db")
    table.create()
    return Place("test", "localhost:1", "words-7", "pipeline-sqlite.yaml", str(tmp_path / "eos.db"), table)


def test_the_copy_is_a_valid_spec_of_its_topic(place: Place, tmp_path: Path) -> None:
    with Job(tmp_path, place, _Driver, _QUICK) as job:
        driver = job.start(None)
    spec = load_spec(tmp_path / "pipeline-sqlite.yaml", driver.environment)
    assert spec.checkpoint.interval_s == 1.0
    assert "words-7" in (tmp_path / "pipeline-sqlite.yaml").read_text()
    assert driver.killed


def test_a_change_that_the_spec_lacks_is_an_error(place: Place, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"pipeline-sqlite\.yaml lacks 'interval: 3s'"):
        Job(tmp_path, place, _Driver, [("interval: 3s", "interval: 1s")])


def test_a_driver_stops_at_its_fault_point_only(place: Place, tmp_path: Path) -> None:
    with Job(tmp_path, place, _Driver, _QUICK) as job:
        for fault, _ in KILLS:
            faults = Path(job.start(fault).environment["EOS_FAULT_DIR"])
            assert [each.name for each in faults.iterdir()] == [f"{fault}.arm"]
            assert not job.is_stopped(fault)
            (faults / f"{fault}.stopped").touch()
            assert job.is_stopped(fault)
        assert list(Path(job.start(None).environment["EOS_FAULT_DIR"]).iterdir()) == []


def test_the_table_counts_each_row(place: Place, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "eos.db")) as connection:
        connection.executemany("INSERT INTO eos VALUES (?)", [("a",), ("b",), ("a",)])
        connection.commit()
    assert place.table.count() == 3
    assert place.table.rows() == Counter({"a": 2, "b": 1})
