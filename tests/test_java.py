"""Java's options."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs import java
from spark_jobs.java import collector_options


@pytest.mark.parametrize("variable", ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"])
def test_java_is_given_one_collector(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two of them it does not start."""
    monkeypatch.delenv(variable, raising=False)
    assert collector_options("-Xss4m") == ["-XX:+UseParallelGC"]
    assert collector_options("-XX:+UseZGC") == []
    monkeypatch.setenv(variable, "-XX:+UseSerialGC")
    assert collector_options("") == []


def test_a_path_in_a_properties_file_is_read_by_java_as_it_is() -> None:
    path = Path("/d\u00f6c s/\U0001f600/a\\b")
    written = java._as_property(path)
    assert written.isascii()
    assert written == "/d\\u00f6c s/\\ud83d\\ude00/a\\u005cb"
