"""The Java that servers of the tests run on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from integration_tests.services.values import ServiceError

LOGGING: Final = """\
rootLogger.level = INFO
rootLogger.appenderRef.stdout.ref = stdout
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = %d %p %c{1}: %m%n
"""
"""Of log4j2: a server writes all to its standard output."""


def java(server: str) -> str:
    """Return the program. Raises ServiceError, which names the server that needs it."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not Path(found).exists():
        raise ServiceError(
            f"{server} needs Java 17 or newer on PATH or in JAVA_HOME; scripts/setup installs it for root"
        )
    return found
