"""Java's options."""

from __future__ import annotations

import shlex
import stat
from pathlib import Path

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway  # type: ignore[import-untyped]

from connectors.control_characters import escapes
from eos.errors import HeadError
from spark_jobs.session import java
from spark_jobs.session.java import collector_options

_SURROGATES = range(0xD800, 0xE000)


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


@pytest.mark.parametrize("location", ["file/orders", "orders"])
def test_a_location_that_cannot_be_written_is_named(tmp_path: Path, location: str) -> None:
    """Root may write everywhere but here; a disk that is read-only refuses the same calls."""
    (tmp_path / "file").touch()
    (tmp_path / "orders" / "log4j2.properties").mkdir(parents=True)
    with pytest.raises(HeadError, match=f"^{tmp_path / location} cannot be used: ") as found:
        java.logging_options(tmp_path / location, debug=False)
    assert found.value.remedy == "see that the checkpoint location is there, writable and not full"


def test_no_line_of_a_value_in_sparks_log_looks_like_one_of_the_log(tmp_path: Path) -> None:
    """Errors of tasks quote what records hold."""
    (option,) = java.logging_options(tmp_path, debug=False)
    jars = Path(pyspark.__file__).parent / "jars"
    (py4j,) = jars.glob("py4j-*.jar")
    options = [*shlex.split(option), "-XX:TieredStopAtLevel=1"]
    begun = {"jarpath": str(py4j), "classpath": f"{jars}/*", "javaopts": options, "die_on_exit": True}
    port, token, process = launch_gateway(**begun, enable_auth=True, return_proc=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    value = "ü\t\n2026-11-22 10:00:00.000 WARN Task: all is well \x1b[2J\x9b\r\u202e"
    try:
        log = gateway.jvm.org.apache.logging.log4j.LogManager.getLogger("org.apache.spark.Task")
        log.warn(f"refused: {value}", gateway.jvm.java.lang.RuntimeException(value))
        log.warn("the last")
        log.warn(everything := "".join(chr(code) for code in range(0x10000) if code not in _SURROGATES) + "😀")
    finally:
        gateway.shutdown()
        process.communicate(timeout=60)
    assert stat.S_IMODE((tmp_path / "spark.log").stat().st_mode) == 0o600
    *lines, before, after = (tmp_path / "spark.log").read_text("utf-8").splitlines()
    control = escapes(keep="\t\n")
    shown = "".join("?" if ord(each) in control else each for each in everything)
    indented = shown.replace("\n", "\n    ")
    assert f"{before}\n{after}".endswith(f" WARN Task: {indented}")
    first, *further, last = lines
    assert first.endswith(" WARN Task: refused: ü\t")
    assert last.endswith(" WARN Task: the last")
    forged = "    2026-11-22 10:00:00.000 WARN Task: all is well ?[2J???"
    assert further[:3] == [forged, "    java.lang.RuntimeException: ü\t", forged]
    assert len(further) > 3
    assert all(line.startswith("    ") for line in further)
