"""Java's options, as the session sets them."""

from __future__ import annotations

import pytest

from spark_jobs import session


@pytest.mark.parametrize("variable", ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"])
def test_java_is_given_one_collector(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two of them it does not start."""
    monkeypatch.delenv(variable, raising=False)
    assert session._collector("-Xss4m") == ["-XX:+UseParallelGC"]
    assert session._collector("-XX:+UseZGC") == []
    monkeypatch.setenv(variable, "-XX:+UseSerialGC")
    assert session._collector("") == []
