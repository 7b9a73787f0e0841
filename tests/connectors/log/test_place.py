"""A log lies on the driver's own disk in every task, or the task is refused: rows elsewhere would never be found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from connectors.log.place import LogPlace, Sight
from eos.errors import TargetError
from wal.address import ObjectAddress


def test_a_task_that_sees_the_drivers_folder_writes_there(tmp_path: Path) -> None:
    place = LogPlace(tmp_path / "log").on_driver()
    assert place.open().describe() == str(tmp_path / "log")


def test_a_folder_of_the_same_name_on_another_machine_is_refused(tmp_path: Path) -> None:
    place = LogPlace(tmp_path / "log").on_driver()
    assert place.seen is not None
    elsewhere = replace(place, seen=replace(place.seen, machine="another boot id"))
    with pytest.raises(TargetError, match="which on this machine is not what the driver sees there"):
        elsewhere.open()


def test_another_folder_of_the_same_name_is_refused(tmp_path: Path) -> None:
    """In another container, say, whose disk is its own."""
    (tmp_path / "log").mkdir()
    place = LogPlace(tmp_path / "log").on_driver()
    (tmp_path / "log").rename(tmp_path / "moved")
    with pytest.raises(TargetError):
        place.open()
    (tmp_path / "log").mkdir()
    with pytest.raises(TargetError):
        place.open()


def test_a_bucket_is_the_same_from_everywhere() -> None:
    place = LogPlace(ObjectAddress.parse("s3://bucket/prefix", {"region": "eu-west-1"}))
    assert place.on_driver().seen is None


def test_a_folder_that_is_not_there_yet_is_known_by_the_one_above_it(tmp_path: Path) -> None:
    assert LogPlace(tmp_path / "new" / "log").on_driver().seen == Sight.of(tmp_path)
