"""Java programs of Maven projects beside this module, built once for each content of a project."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from integration_tests.services.maven_jars import cache_folder
from integration_tests.services.state import exclusive, tail
from integration_tests.services.values import ServiceError

_PROJECTS: Final = Path(__file__).parent
_COPY: Final = ("dependency:copy-dependencies", "-DincludeScope=runtime")
_BUILD_S: Final = 1200.0


def built(name: str, excluded: Sequence[str] = ()) -> Path:
    """Return the folder with all jars that a project needs, and the project's own.

    Blocks for some minutes the first time, because Maven fetches them. `excluded`: groups of jars to leave out. Raises
    ServiceError.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise ServiceError(
            "Maven is not installed: it builds Flink's and Debezium's part. On Debian: apt install maven"
        )
    project = _PROJECTS / name
    folder = cache_folder() / "formats" / f"{name}-{_digest(project, excluded)}"
    complete = folder / "complete"
    with exclusive(folder / "lock"):
        if not complete.exists():
            command = [maven, "-q", "-B", "-f", str(project / "pom.xml"), f"-Dbuilt={folder / 'target'}"]
            copied = [*_COPY, f"-DoutputDirectory={folder / 'jars'}"]
            if excluded:
                copied.append(f"-DexcludeGroupIds={','.join(excluded)}")
            packaged = ["package"] if (project / "src").exists() else []
            _run([*command, *packaged, *copied], folder / "log")
            for jar in (folder / "target").glob("*.jar"):
                shutil.copy(jar, folder / "jars")
            complete.touch()
    return folder / "jars"


def java() -> str:
    """Return the program. Raises ServiceError."""
    found = shutil.which("java")
    if found is None:
        raise ServiceError("Java is not installed; run scripts/setup")
    return found


def _digest(project: Path, excluded: Sequence[str]) -> str:
    files = sorted(path for path in project.rglob("*") if path.is_file())
    content = b"\0".join([path.read_bytes() for path in files] + [each.encode() for each in excluded])
    return hashlib.sha256(content).hexdigest()[:12]


def _run(command: Sequence[str], log: Path) -> None:
    with log.open("wb") as output:
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=_BUILD_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise ServiceError(f"Maven did not end in {_BUILD_S:g} s ({log}):\n{tail(log)}") from None
    if done.returncode != 0:
        raise ServiceError(f"Maven has failed ({log}):\n{tail(log)}")
