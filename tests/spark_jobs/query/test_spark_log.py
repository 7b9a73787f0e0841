"""Spark's checkpoint folder, as Spark 4.3 writes it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eos.errors import IdentityError, PlanOverwrittenError, SpecError
from spark_jobs.query import spark_log
from spark_jobs.query.source_offset import SourceOffset
from spark_jobs.query.spark_log import JobSparkLog, LocalSparkLog, check_ends, planned
from spark_jobs.query.truncated_files import is_cut_commit
from twophase.values import SparkState

_OFFSETS = (
    'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n{"source": "orders", "ends": {"t/0": 7, "t/1": 0}}'
)


def _written(location: Path) -> LocalSparkLog:
    folder = location / "spark" / "inc"
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"q-1"}')
    for number in (8, 9, 10):
        (folder / "offsets" / str(number)).write_text(f"{_OFFSETS}{number}")
        (folder / "offsets" / f".{number}.crc").write_bytes(b"x")
    (folder / "commits" / "9").write_text("v1\n{}")
    return LocalSparkLog(location)


def test_newest_numbers_are_numbers_not_text(tmp_path: Path) -> None:
    state = _written(tmp_path).state("inc")
    assert state == SparkState("q-1", 10, 9, {9: f"{_OFFSETS}9", 10: f"{_OFFSETS}10"})


def test_a_pipeline_that_never_ran_has_nothing(tmp_path: Path) -> None:
    assert LocalSparkLog(tmp_path).state("inc") == SparkState()


def test_all_that_a_plan_rests_on_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And that the batch before is done; each with its folder. Of a job's own query the logs of its sources, too."""
    synced: list[list[str]] = []
    log = _written(tmp_path)
    folder = log.folder("inc")
    monkeypatch.setattr(
        spark_log, "sync_all", lambda paths: synced.append([str(path.relative_to(folder)) for path in paths])
    )
    plan = ["commits/9", "commits", "offsets/10", "offsets/.10.crc", "offsets", "metadata", "."]
    log.sync_offsets("inc", 10)
    log.sync_query("inc")
    (folder / "sources" / "0").mkdir(parents=True)
    for number in range(6):
        entry = folder / "sources" / "0" / str(number)
        entry.write_text("v1")
        os.utime(entry, (number, number))
    JobSparkLog(folder).sync_offsets("inc", 10)
    of_sources = [*(f"sources/0/{number}" for number in (2, 3, 4, 5)), "sources/0", "sources"]
    assert synced == [plan, ["metadata", "."], [*of_sources, *plan]]


@pytest.mark.parametrize("content", ["{", pytest.param("[" * 200_000, id="deep")])
def test_damaged_metadata_is_named(tmp_path: Path, content: str) -> None:
    log = _written(tmp_path)
    (tmp_path / "spark" / "inc" / "metadata").write_text(content)
    assert "metadata is damaged" in str(log.state("inc").query_id)


def test_settings_of_a_plan_that_cannot_be_read_name_no_partitions(tmp_path: Path) -> None:
    log = _written(tmp_path)
    for plan in (tmp_path / "spark" / "inc" / "offsets").iterdir():
        plan.write_text(f"v1\n{'[' * 200_000}\n-")
    assert log.state("inc").state_partitions == {}


def test_a_mark_of_a_batch_that_cannot_be_read_is_cut_off() -> None:
    assert is_cut_commit(b"v1\n" + b"[" * 200_000)


def test_sources_are_told_by_name_not_by_order() -> None:
    two = f'{_OFFSETS}\n{{"source": "users", "ends": {{"u/0": 1}}}}'
    for names in (["orders", "users"], ["users", "orders"]):
        assert planned(two, names) == {
            "orders": SourceOffset("orders", {"t/0": 7, "t/1": 0}),
            "users": SourceOffset("users", {"u/0": 1}),
        }
    for names in (["orders"], ["orders", "clicks"], ["orders", "users", "clicks"]):
        with pytest.raises(IdentityError, match="sources of a pipeline cannot change"):
            planned(two, names)
    with pytest.raises(IdentityError):
        planned(f"{_OFFSETS}\n{_OFFSETS.splitlines()[-1]}", ["orders", "users"])


def test_ends_by_source() -> None:
    assert planned(_OFFSETS, ["orders"]) == {"orders": SourceOffset("orders", {"t/0": 7, "t/1": 0})}
    assert planned("v1\n{}\n-", ["orders"]) == {}


def test_h25_a_plan_is_the_one_that_spark_runs() -> None:
    by_java = {'{"source":"orders","ends":{"t/0":7}}': -685903540, "\U0001f600\u00e9": 54960102, "\u2028": 8232}
    text, held = "\n".join(["v1", "{}", "-", *by_java]), list(by_java.values())[::-1]
    check_ends(text, held)
    for other in (held[:1], [*held, 0], [held[0], held[1] + 1], []):
        with pytest.raises(PlanOverwrittenError, match="another driver"):
            check_ends(text, other)
    for damaged in ("", "v1", "another's"):
        with pytest.raises(PlanOverwrittenError, match="another driver"):
            check_ends(damaged, held)


def test_a_plan_in_spark_s_second_format_is_not_another_driver_s() -> None:
    with pytest.raises(SpecError, match="format 2") as caught:
        check_ends('v2\n{"conf":{}}\n0:{"logOffset":1}', [-1])
    assert "offsetLog.formatVersion to 1" in caught.value.remedy


@pytest.mark.parametrize("content", ["", "v1", "v1\n", "v1\n{}", "\0" * 40])
def test_a_plan_that_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    log = _written(tmp_path)
    path = log.folder("inc") / "offsets" / "10"
    path.write_text(content)
    with pytest.raises(IdentityError, match=f"Spark's {path} is empty or cut off") as caught:
        log.plan_after("inc", 9, ["orders"])
    assert "restore Spark's checkpoint folder" in caught.value.remedy


def test_a_commit_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    log = _written(tmp_path)
    commits = log.folder("inc") / "commits"
    (commits / "10").write_bytes(b"")
    assert log.state("inc").newest_committed == 9
    (commits / "9").write_bytes(b"")
    assert log.state("inc").newest_committed == -1


@pytest.mark.parametrize("text", ["v2\n{}\n{}", "v1\n{}\n{}\n{}", "v1\n{}", 'v1\n{}\n{"t/0": 7}', "v1\n{}\n{"])
def test_another_shape_is_refused(text: str) -> None:
    with pytest.raises(IdentityError):
        planned(text, ["orders"])
