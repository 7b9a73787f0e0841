"""From a batch of Spark's to the driver: what is compared before anything is decided."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from eos.errors import PlanOverwrittenError
from spark_jobs.checkpoints import Checkpoints
from spark_jobs.report import CheckpointReport, Listener
from spark_jobs.source_offset import SourceOffset
from spark_jobs.spark_log import LocalSparkLog, _java_hash
from tests.test_history_recorder import Numbered
from tests.test_twophase_effects import Setting
from tests.twophase_values import INCARNATION
from twophase.driver import Driver
from twophase.values import StartingPoint

OURS, ANOTHERS = '{"ends": 10}', '{"ends": 20}'


def _planned(offsets_log: str) -> Mapping[str, SourceOffset]:
    ends = {"orders/0": 10 if OURS in offsets_log else 20}
    return {"orders": SourceOffset("orders", ends, StartingPoint({"orders/0": 0}))}


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path / "head")


@pytest.fixture
def driver(setting: Setting, tmp_path: Path) -> Driver:
    """Spark has planned batch 0, and nothing is decided."""
    driver = setting.driver()
    driver.spark = LocalSparkLog(tmp_path)
    driver.start()
    folder = LocalSparkLog(tmp_path).folder(INCARNATION)
    (folder / "offsets").mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"q-1"}')
    (folder / "offsets" / "0").write_text(f"v1\n{{}}\n{OURS}")
    return driver


def _complete(setting: Setting, driver: Driver, location: Path, held: str) -> CheckpointReport:
    batch = Numbered(setting.sink, ends_held=[_java_hash(held)])
    return Checkpoints(driver, LocalSparkLog(location), Listener(), _planned).complete(batch)


def test_h25_a_batch_whose_plan_was_written_over_is_not_decided(
    setting: Setting, driver: Driver, tmp_path: Path
) -> None:
    """Spark reads up to the end that it has in memory; head would say the other driver's."""
    with pytest.raises(PlanOverwrittenError):
        _complete(setting, driver, tmp_path, ANOTHERS)
    assert (driver.owned.completed, setting.sink.waiting) == (-1, set())
    assert "permit" not in setting.sink.calls


def test_a_batch_is_decided_with_the_plan_that_spark_runs(setting: Setting, driver: Driver, tmp_path: Path) -> None:
    report = _complete(setting, driver, tmp_path, OURS)
    assert (report.record.offsets_log, report.replayed) == (f"v1\n{{}}\n{OURS}", False)
    assert (driver.owned.committed, driver.owned.query_id) == (0, "q-1")
    assert driver.owned.positions == {"orders": {"orders/0": 10}}
