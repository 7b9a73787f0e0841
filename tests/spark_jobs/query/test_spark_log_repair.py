"""What a power cut leaves of Spark's checkpoint, which Spark writes without a sync: files that are empty or cut off."""

from __future__ import annotations

import fcntl
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from eos.errors import FencedError, IdentityError
from spark_jobs.observe.history.model import Event
from spark_jobs.observe.report import Listener
from spark_jobs.query import spark_log_repair
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.query.spark_log_repair import mend
from twophase.head_value import HeadValue

_PLAN = 'v1\n{"conf":{}}\n{"source": "orders", "ends": {"t/0": 7}}'
_COMMIT = 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}'
_CUT = ["", "\0" * 40, "v", "v1", "v1\n{}", "v1\n{}\n", _PLAN[:-1], _PLAN[:20], f"{_PLAN}\n", f"{_PLAN[:30]}\0\0\0"]


@dataclass
class _Driver:
    """That has completed checkpoint 4."""

    owned: HeadValue = field(default_factory=lambda: HeadValue("p", "inc", 7, (), completed=4, query_id="q"))
    error: Exception | None = None
    looks: int = 0

    def check_owned(self) -> None:
        self.looks += 1
        if self.error is not None:
            raise self.error


class _Heard(Listener):
    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        self.events.append(event)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Batch 4 is decided, and Spark has planned batch 5."""
    found = tmp_path / "spark" / "inc"
    for log, content, last in (("offsets", _PLAN, 5), ("commits", _COMMIT, 4)):
        (found / log).mkdir(parents=True)
        for number in range(last + 1):
            (found / log / str(number)).write_text(content)
            (found / log / f".{number}.crc").write_text("sums")
    (found / "metadata").write_text('{"id":"q"}')
    return found


def _mended(folder: Path, driver: _Driver | None = None, overran: int | None = None) -> list[str]:
    """What is gone."""
    before, heard = _files(folder), _Heard()
    mend(cast(Any, driver or _Driver()), LocalSparkLog(folder.parents[1]), heard, overran)
    gone = sorted(before - _files(folder))
    told = [each.message.split(": ")[0].removeprefix(f"deleted {folder}/") for each in heard.events]
    assert {each.kind for each in heard.events} <= {"mended"}
    assert sorted(told) == [each for each in gone if "/." not in each and not each.startswith((".", "state"))]
    return gone


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def _stateful(folder: Path) -> None:
    (folder / "state" / "0" / "_metadata" / "v2").mkdir(parents=True)
    for name in ("0", "5"):
        (folder / "state" / "0" / "_metadata" / "v2" / name).write_text("v2")


def test_what_is_whole_stays(folder: Path) -> None:
    driver = _Driver()
    assert _mended(folder, driver) == []
    assert driver.looks == 0, "head is read for nothing"
    for plan in (f"{_PLAN}\n-", "v1\n{}\n-\n5", "v2\n{}\n{}"):
        (folder / "offsets" / "5").write_text(plan)
        assert _mended(folder) == []
    for commit in ("v1", 'v1\n{"nextBatchWatermarkMs":0}'):
        (folder / "commits" / "4").write_text(commit)
        assert _mended(folder) == []


@pytest.mark.parametrize("content", [*_CUT, b"\xff\xfe"], ids=repr)
def test_a_plan_that_is_cut_off_and_not_decided_is_deleted(folder: Path, content: str | bytes) -> None:
    (folder / "offsets" / "5").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert LocalSparkLog(folder.parents[1]).state("inc").newest_planned == 5, "a sink may hold something of it so far"
    assert _mended(folder) == ["offsets/.5.crc", "offsets/5"]
    assert _mended(folder) == []


def test_what_a_plan_that_is_cut_off_says_of_state_goes_with_it(folder: Path) -> None:
    _stateful(folder)
    (folder / "offsets" / "5").write_bytes(b"")
    assert _mended(folder) == ["offsets/.5.crc", "offsets/5", "state/0/_metadata/v2/5"]


def test_a_plan_whose_tasks_took_too_long_is_deleted_if_it_is_the_one_that_comes_next(folder: Path) -> None:
    assert _mended(folder, overran=4) == [], "it is decided"
    assert _mended(folder, overran=6) == []
    assert _mended(folder, overran=5) == ["offsets/.5.crc", "offsets/5"]
    assert _mended(folder, overran=5) == []


def test_a_plan_that_is_decided_is_never_deleted(folder: Path) -> None:
    (folder / "offsets" / "4").write_bytes(b"")
    assert _mended(folder) == []


@pytest.mark.parametrize("content", ["", "\0" * 40, "v", "v1\n{", _COMMIT[:-1]], ids=repr)
def test_without_state_no_commit_is_needed(folder: Path, content: str) -> None:
    for number in (3, 4):
        (folder / "commits" / str(number)).write_text(content)
    assert LocalSparkLog(folder.parents[1]).state("inc").newest_committed == 2
    assert _mended(folder) == ["commits/.3.crc", "commits/.4.crc", "commits/3", "commits/4"]
    for path in (folder / "commits").iterdir():
        path.write_bytes(b"")
    assert len(_mended(folder)) == 6


def test_with_state_the_decided_batch_is_run_again_before_another_is_planned(folder: Path) -> None:
    """Its commit alone told which state it has left, and Spark would go on with the newest plan."""
    _stateful(folder)
    (folder / "commits" / "4").write_bytes(b"")
    gone = ["commits/.4.crc", "commits/4", "offsets/.5.crc", "offsets/5", "state/0/_metadata/v2/5"]
    assert _mended(folder) == gone


def test_it_may_be_cut_short_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit goes last: as long as it is there, the plan is known to be one without its state."""
    _stateful(folder)
    (folder / "commits" / "4").write_bytes(b"")
    monkeypatch.setattr(spark_log_repair, "drop", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        _mended(folder)
    monkeypatch.undo()
    assert not (folder / "offsets" / "5").exists()
    assert _mended(folder) == ["commits/.4.crc", "commits/4"]


@pytest.mark.parametrize("empty", [("3", "4"), ("3",)])
def test_state_that_is_not_known_any_more_is_refused(folder: Path, empty: tuple[str, ...]) -> None:
    _stateful(folder)
    for number in ("3", "4"):
        (folder / "commits" / number).unlink()
    for number in empty:
        (folder / "commits" / number).write_bytes(b"")
    before = _files(folder)
    with pytest.raises(IdentityError, match=r"commits/3 is empty or cut off: .* checkpoint 4") as caught:
        _mended(folder)
    assert "restore it from a backup, or begin from a savepoint" in caught.value.remedy
    assert _files(folder) == before


def test_the_first_batch_begins_without_state(folder: Path) -> None:
    _stateful(folder)
    for number in range(1, 6):
        (folder / "offsets" / str(number)).unlink()
        (folder / "commits" / str(number)).unlink(missing_ok=True)
    (folder / "commits" / "0").write_bytes(b"")
    driver = _Driver(HeadValue("p", "inc", 7, (), completed=0, query_id="q"))
    assert _mended(folder, driver) == ["commits/.0.crc", "commits/0"]


def test_an_id_that_head_has_not_taken_is_no_loss(folder: Path) -> None:
    (folder / "metadata").write_bytes(b"")
    (folder / ".metadata.crc").write_bytes(b"")
    assert _mended(folder) == [], "head has it: a start has refused that"
    assert _mended(folder, _Driver(HeadValue("p", "inc", 7, ()))) == [".metadata.crc", "metadata"]


def test_a_driver_that_is_superseded_deletes_nothing(folder: Path) -> None:
    (folder / "offsets" / "5").write_bytes(b"")
    before = _files(folder)
    with pytest.raises(FencedError):
        _mended(folder, _Driver(error=FencedError("fenced")))
    assert _files(folder) == before


def test_who_comes_later_waits_and_looks_again(folder: Path) -> None:
    """Or it would delete what another driver's Spark has planned in the place of what it saw."""
    (folder / "offsets" / "5").write_bytes(b"")
    other = os.open(folder, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    late = threading.Thread(target=_mended, args=(folder, driver := _Driver()))
    late.start()
    late.join(0.2)
    assert late.is_alive()
    assert driver.looks == 0, "head is read before it is its turn"
    (folder / "offsets" / "5").write_text(_PLAN)
    os.close(other)
    late.join(10)
    assert (folder / "offsets" / "5").read_text() == _PLAN


def test_a_plan_is_not_run_before_an_older_driver_that_replans_it_is_through(folder: Path) -> None:
    """The older driver knows that the plan overran, and nothing in the folder shows it.

    Frozen before its last deletion, the older driver would delete a plan that this driver has decided.
    """
    other = os.open(folder, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    driver, log = cast(Any, _Driver()), LocalSparkLog(folder.parents[1])
    late = threading.Thread(target=mend, args=(driver, log, _Heard()))
    late.start()
    late.join(0.2)
    assert late.is_alive(), "it would run the plan"
    log.forget_plan("inc", 5)
    os.close(other)
    late.join(10)
    assert not late.is_alive()
    assert driver.looks == 0


def test_a_query_that_never_ran_has_nothing_to_wait_for(tmp_path: Path) -> None:
    mend(cast(Any, _Driver()), LocalSparkLog(tmp_path), _Heard())
    assert not list(tmp_path.iterdir())


def test_who_waits_in_vain_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_log_repair, "_PATIENCE_S", 0.1)
    (folder / "offsets" / "5").write_bytes(b"")
    other = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(IdentityError, match="another driver repairs Spark's checkpoint in"):
            _mended(folder)
    finally:
        os.close(other)
