"""From a batch of Spark's to the driver: what is compared before anything is decided."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eos.errors import OffsetOutOfRangeError, PlanOverwrittenError
from spark_jobs.observe.report import CheckpointReport, Listener
from spark_jobs.query.spark_log import LocalSparkLog, _java_hash
from spark_jobs.run.checkpoints import Checkpoints
from tests.spark_jobs.observe.test_history_recorder import Numbered
from tests.twophase.test_effects import Setting
from tests.twophase_values import INCARNATION
from twophase.driver import Driver
from twophase.values import OffsetRange

_BEGAN = '"began":{"positions":{"orders/0":0},"identities":{}}'
OURS, ANOTHERS = (f'{{"source":"orders","ends":{{"orders/0":{end}}},{_BEGAN}}}' for end in (10, 20))


class _Orders:
    """A source of one split, which has lost its first three records."""

    name = "orders"

    def __init__(self, lost: int = 3) -> None:
        self.asked: list[OffsetRange] = []
        self.lost = lost

    def lost_ranges(self, ranges: Sequence[OffsetRange]) -> Sequence[OffsetRange]:
        self.asked += ranges
        return [OffsetRange("orders/0", 0, self.lost)] if ranges else []


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
    orders: Any = _Orders()
    report = Checkpoints(driver, LocalSparkLog(location), Listener(), [orders]).complete(batch)
    assert batch.ranges == {"orders": [OffsetRange("orders/0", 0, 10)]}
    assert orders.asked == batch.ranges["orders"]
    return report


def test_h25_a_batch_whose_plan_was_written_over_is_not_decided(
    setting: Setting, driver: Driver, tmp_path: Path
) -> None:
    """Spark reads up to the end that it has in memory; head would say the other driver's."""
    with pytest.raises(PlanOverwrittenError):
        _complete(setting, driver, tmp_path, ANOTHERS)
    assert (driver.owned.completed, setting.sink.waiting) == (-1, set())
    assert "permit" not in setting.sink.calls


def test_a_batch_is_decided_with_the_plan_that_spark_runs(
    setting: Setting, driver: Driver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    report = _complete(setting, driver, tmp_path, OURS)
    assert "left out, retention has deleted it: orders/0, offsets [0, 3)" in caplog.text
    assert (report.record.offsets_log, report.replayed) == (f"v1\n{{}}\n{OURS}", False)
    assert (driver.owned.committed, driver.owned.query_id) == (0, "q-1")
    assert driver.owned.positions == {"orders": {"orders/0": 10}}
    assert report.record.left_out == {"orders": (OffsetRange("orders/0", 0, 3),)}


@pytest.mark.parametrize(("lost", "stateful", "error"), [(3, True, False), (4, True, True), (4, False, False)])
def test_h39_a_batch_that_runs_again_for_its_state_has_the_records_that_it_had(
    setting: Setting, driver: Driver, tmp_path: Path, *, lost: int, stateful: bool, error: bool
) -> None:
    """Without state nothing is read. Records that the decision left out are not missing."""
    _complete(setting, driver, tmp_path, OURS)
    batch = Numbered(setting.sink, ends_held=[_java_hash(OURS)], stateful=stateful)
    orders: Any = _Orders(lost)
    again = Checkpoints(driver, LocalSparkLog(tmp_path), Listener(), [orders])
    if not error:
        assert again.complete(batch).replayed
        return
    with pytest.raises(OffsetOutOfRangeError, match=r"repeats checkpoint 0 .* orders/0\[0, 4\) were deleted") as caught:
        again.complete(batch)
    assert "eos reset" in caught.value.remedy
