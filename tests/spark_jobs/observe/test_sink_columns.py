"""A start reports the columns of a sink that differ from the last start's."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.observe.sink_columns import NAME, changes

BEFORE = {"out": {"id": "bigint", "user": "string"}, "other": {"a": "int"}}


def _messages(location: Path, now: dict[str, dict[str, str]]) -> list[str]:
    return [each.message for each in changes(location, now, 1.0)]


def test_only_a_difference_is_reported_and_once(tmp_path: Path) -> None:
    assert _messages(tmp_path, BEFORE) == []
    assert _messages(tmp_path, BEFORE) == []
    now = {"out": {"id": "string", "amount": "double"}, "new": {"b": "int"}}
    expected = (
        "sink out: column id was bigint and is string; column user string is missing; column amount double is new"
    )
    assert _messages(tmp_path, now) == [expected]
    assert _messages(tmp_path, now) == []


@pytest.mark.parametrize("content", ["", "[]", '{"format": 2}', '{"format": 1, "sinks": 7}', '{"sinks": {}}'])
def test_without_a_file_that_can_be_read_nothing_is_reported(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content)
    assert _messages(tmp_path, BEFORE) == []
    assert _messages(tmp_path, {**BEFORE, "other": {"a": "bigint"}}) == ["sink other: column a was int and is bigint"]


def test_a_location_that_cannot_be_written_ends_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert _messages(tmp_path / "missing", BEFORE) == []
    assert "is not kept" in caplog.text
