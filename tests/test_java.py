"""Java's options."""

from __future__ import annotations

import pytest

from spark_jobs.java import collector_options


@pytest.mark.parametrize("variable", ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"])
def test_java_is_given_one_collector(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two of them it does not start."""
    monkeypatch.delenv(variable, raising=False)
    assert collector_options("-Xss4m") == ["-XX:+UseParallelGC"]
    assert collector_options("-XX:+UseZGC") == []
    monkeypatch.setenv(variable, "-XX:+UseSerialGC")
    assert collector_options("") == []
