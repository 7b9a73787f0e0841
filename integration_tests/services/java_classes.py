"""Java classes for a server of the tests: compiled by Janino, which Spark ships, so without a JDK."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from integration_tests.services.maven_jars import spark_home
from integration_tests.services.values import ServiceError

_SOURCES: Final = Path(__file__).parent / "java"
_COMPILER: Final = "org.codehaus.commons.compiler.samples.CompilerDemo"


def compiled(java: str, name: str, libraries: str, folder: Path) -> Path:
    """Compile `java/<name>.java` into the folder, and return it.

    Args:
        java: the program.
        libraries: the class path that the class is written against.
    """
    jars = [next((spark_home() / "jars").glob(f"{jar}-*.jar")) for jar in ("janino", "commons-compiler")]
    folder.mkdir(parents=True, exist_ok=True)
    command = [java, "-cp", ":".join(map(str, jars)), _COMPILER, "-classpath", libraries, "-d", str(folder)]
    done = subprocess.run(
        [*command, str(_SOURCES / f"{name}.java")], capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode != 0 or not any(folder.rglob(f"{name}.class")):
        raise ServiceError(f"{name}.java was not compiled:\n{done.stdout}{done.stderr}")
    return folder
