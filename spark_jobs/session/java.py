"""Java's options for the driver: where it logs, and how it collects garbage."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from connectors.control_characters import RANGES
from twophase.local_blobs import naming
from wal.private import make_private

_COLLECTOR: Final = "-XX:+UseParallelGC"
"""Moves 15 % more in the first million records than Java's default, and as many later: its barriers are cheaper."""
COMPILE_FAST: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=128m")
"""For a JVM through which no rows go: its second compiler would take half a core for the first minute, and more than it
ever gives back. Where rows go through it they are 8 % slower without. What the first one makes comes to 40 MB in some
minutes: by itself Java would give it 48 MB, and pause it whenever they are full."""
_VARIABLES: Final = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "SPARK_SUBMIT_OPTS", "_JAVA_OPTIONS")
_RANGES: Final = "".join(rf"\\u{first:04x}-\\u{last:04x}" for first, last in RANGES)
_CONTROL: Final = rf"[{_RANGES}&&[^\\t\\n]]"
_TEXT: Final = rf"%replace{{%replace{{%m%n%ex}}{{{_CONTROL}}}{{?}}}}{{\\n(?!\\z)}}{{\n    }}"
"""Errors quote what records hold. Further lines are indented, so none looks like a line of the log. A question mark
replaces each control character, also a character that reverses a line."""
_LOG4J: Final = """\
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {path}
appender.file.filePattern = {path}.%i
appender.file.filePermissions = rw-------
appender.file.layout.type = PatternLayout
appender.file.layout.charset = UTF-8
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: {text}
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
"""


def logging_options(location: Path, *, debug: bool) -> list[str]:
    """Have Spark write its log to `spark.log` at the location: three files of 10 MB. Raises HeadError."""
    settings = location / "log4j2.properties"
    path = _as_property(location / "spark.log")
    with naming(location):
        make_private(location)
        settings.write_text(_LOG4J.format(level="info" if debug else "warn", path=path, text=_TEXT))
    return [f'-Dlog4j2.configurationFile="{settings}"']


def collector_options(given: str) -> list[str]:
    """Nothing where somebody has chosen a collector: Java refuses to start with two."""
    chosen = " ".join([given, *(os.environ.get(name, "") for name in _VARIABLES)])
    return [] if "GC" in chosen else [_COLLECTOR]


def _as_property(path: Path) -> str:
    """Java reads a .properties file as Latin-1, and takes a backslash for an escape."""
    units = memoryview(str(path).encode("utf-16-le")).cast("H")
    return "".join(chr(unit) if unit < 128 and unit != ord("\\") else f"\\u{unit:04x}" for unit in units)
