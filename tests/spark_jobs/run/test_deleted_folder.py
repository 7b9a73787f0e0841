"""Spark's checkpoint folder is deleted while a driver of its incarnation runs: by a reset, or by anything else."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from eos.errors import FencedError, IdentityError
from spark_jobs.observe.report import Listener
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.run.checkpoints import Checkpoints
from tests.spark_jobs.observe.test_history_recorder import Numbered
from tests.twophase.test_effects import Setting
from tests.twophase_values import INCARNATION
from twophase.driver import Driver

_ORDERS: Final[Any] = SimpleNamespace(name="orders", lost_ranges=lambda _ranges: [])


class _Pipeline:
    """A driver that has completed checkpoint 0."""

    def __init__(self, location: Path) -> None:
        self.setting = Setting(location / "head")
        self.log = LocalSparkLog(location)
        self.driver = self._driver(INCARNATION)
        self.driver.start()
        self.folder = self.log.folder(INCARNATION)
        (self.folder / "offsets").mkdir(parents=True)
        (self.folder / "metadata").write_text('{"id":"q-1"}')
        self.plan(0)
        self.run(0)
        assert self.driver.owned.committed == 0

    def _driver(self, incarnation: str) -> Driver:
        driver = self.setting.driver()
        driver.spark, driver.incarnation = self.log, incarnation
        return driver

    def plan(self, number: int) -> None:
        """Write `offsets/N` as Spark does: missing folders are created."""
        (self.folder / "offsets").mkdir(parents=True, exist_ok=True)
        began = {"positions": {"orders/0": 0}, "identities": {}} if number == 0 else {"positions": {}, "identities": {}}
        offset = {"source": "orders", "ends": {"orders/0": 10 * number + 10}, "began": began}
        (self.folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{json.dumps(offset)}")

    def run(self, number: int) -> None:
        checkpoints = Checkpoints(self.driver, self.log, Listener(), [_ORDERS])
        checkpoints.complete(Numbered(self.setting.sink, checkpoint_id=number))

    def reset(self) -> None:
        begun = self._driver("b" * 20).reset(expected=self.driver.owned)
        assert begun.ended == INCARNATION
        assert self.log.forget(INCARNATION)


@pytest.fixture
def pipeline(tmp_path: Path) -> _Pipeline:
    return _Pipeline(tmp_path)


def test_a_driver_whose_incarnation_a_reset_has_ended_is_fenced(pipeline: _Pipeline) -> None:
    """As after a pause at the end of a checkpoint: Spark goes on, in the folder that the reset has deleted."""
    pipeline.reset()
    pipeline.plan(1)
    calls = list(pipeline.setting.sink.calls)
    with pytest.raises(FencedError, match="fenced: pipeline orders is at epoch 2, this driver is epoch 1") as caught:
        pipeline.run(1)
    assert caught.value.remedy == "another driver of this pipeline has started since; stop one of them"
    assert pipeline.setting.sink.calls == calls, "a fenced driver has used the sink"


def test_a_plan_that_a_reset_deletes_while_the_driver_reads_it(pipeline: _Pipeline) -> None:
    pipeline.reset()
    pipeline.folder.mkdir()
    (pipeline.folder / "metadata").write_text('{"id":"q-1"}')
    with pytest.raises(FencedError, match="fenced: pipeline orders is at epoch 2, this driver is epoch 1"):
        pipeline.run(1)


@pytest.mark.parametrize("name", ["metadata", "offsets/1"])
def test_a_folder_that_something_else_has_deleted_stops_the_pipeline(pipeline: _Pipeline, name: str) -> None:
    pipeline.plan(1)
    (pipeline.folder / name).unlink()
    with pytest.raises(IdentityError, match="Spark's checkpoint was deleted while the pipeline runs: ") as caught:
        pipeline.run(1)
    assert str(pipeline.folder) in caught.value.message
    assert "restore it from a backup" in caught.value.remedy
    assert pipeline.driver.owned.completed == 0
