"""Columns of a sink that differ from the last start's, and tables that a sink has created or changed, are reported."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from connectors.api.contracts import Sink
from connectors.api.table_rows import TableChange
from spark_jobs.observe.schema_events import NAME, change, changes, statements

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


class _Sink:
    name = "out"
    ran = ("CREATE TABLE a (id INT)", "ALTER TABLE a ADD COLUMN b INT")


def test_statements_of_a_start_and_of_a_checkpoint_are_events() -> None:
    found = statements([cast(Sink, _Sink()), cast(Sink, object())], 1.0)
    assert [each.message for each in found] == [f"sink out: {statement}" for statement in _Sink.ran]
    event = change("out", TableChange("a", "CREATE TABLE a (id INT)", "shop.a"), 2.0, 7)
    assert event.message == "sink out: CREATE TABLE a (id INT), for records of topic shop.a"
    assert (event.kind, event.checkpoint_id, event.facts["table"]) == ("schema", 7, "a")
