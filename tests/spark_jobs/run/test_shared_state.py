"""What a start makes of workers that do not see the state's folder; the workers' answers are given here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from eos.errors import SpecError
from spark_jobs.run.shared_state import check_state_is_shared
from spark_jobs.session.probe import Probe, Seen


class Tasks:
    """Of a job: every second one runs where the folder is another one, if there is such a worker."""

    def __init__(self, numbers: list[int], *, apart: bool) -> None:
        self._numbers, self._apart = numbers, apart
        self._look: Probe | None = None

    def mapPartitions(self, look: Probe) -> Tasks:  # noqa: N802 Spark's name
        self._look = look
        return self

    def collect(self) -> list[Seen]:
        assert self._look is not None
        found = []
        for number in self._numbers:
            elsewhere = self._apart and number % 2 == 1
            look = replace(self._look, marker="/nowhere") if elsewhere else self._look
            found += [replace(seen, host="far" if elsewhere else "near") for seen in look([])]
        return found


def session(master: str, *, apart: bool) -> SparkSession:
    def parallelize(numbers: Any, _slices: int) -> Tasks:
        return Tasks(list(numbers), apart=apart)

    context = SimpleNamespace(master=master, defaultParallelism=1, parallelize=parallelize)
    return cast("SparkSession", SimpleNamespace(sparkContext=context))


def test_a_worker_with_a_disk_of_its_own_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=f"steps keep state in {tmp_path}, and on far that is another folder or none"):
        check_state_is_shared(session("spark://m:7077", apart=True), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_all_workers_see(tmp_path: Path) -> None:
    check_state_is_shared(session("spark://m:7077", apart=False), tmp_path)
    assert not list(tmp_path.iterdir())


def test_on_one_machine_nobody_is_asked(tmp_path: Path) -> None:
    check_state_is_shared(session("local[2]", apart=True), tmp_path / "not made")
