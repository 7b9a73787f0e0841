"""A home of Spark's own making: what PySpark's package holds, without the copy of itself that slows every start.

Spark puts `python/lib/pyspark.zip` of its home before everything else on the path of each Python process that it
starts. Those modules are not compiled, so that each process, and there are a dozen in the first seconds of a streaming
query, compiles PySpark again. In a home without that file they import the installed package, which is the same one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyspark

_PARTS: Final = ("RELEASE", "bin", "conf", "data", "jars", "sbin")


def spark_home(environ: Mapping[str, str]) -> Path | None:
    """Find or make it: a folder in the user's cache for one installation of PySpark and one Java.

    Called once a process, for a local master; takes milliseconds. What else is to be kept for the next start may stand
    beside it. None where the user has chosen a home, or where PySpark does not bring Spark with it. Raises OSError
    where the cache cannot be written, or others can.
    """
    package = Path(pyspark.__file__).resolve().parent
    if "SPARK_HOME" in environ or not (package / "jars").is_dir():
        return None
    cache = _cache(environ)
    home = cache / f"spark-{pyspark.__version__}-{_digest(package, environ)}" / "home"
    if not home.is_dir():
        _make(home, package)
    for folder in (cache, home.parent, home):
        _check_ours(folder)
    return home


def _cache(environ: Mapping[str, str]) -> Path:
    chosen = Path(environ.get("XDG_CACHE_HOME", ""))
    return (chosen if chosen.is_absolute() else Path(environ.get("HOME", "/")) / ".cache") / "eos"


def _digest(package: Path, environ: Mapping[str, str]) -> str:
    """Of what an archive of classes depends on, as far as it is cheap to see; Java checks the rest."""
    java_home = environ.get("JAVA_HOME")
    java = Path(java_home) / "bin" / "java" if java_home else Path(shutil.which("java") or "java")
    changed = java.stat().st_mtime_ns if java.exists() else 0
    return hashlib.sha256(f"{package}\0{java.resolve()}\0{changed}".encode()).hexdigest()[:16]


def _make(path: Path, package: Path) -> None:
    """Appears at once or not at all, and may be made by several processes at a time."""
    path.parent.parent.parent.mkdir(parents=True, exist_ok=True)
    for folder in (path.parent.parent, path.parent):
        folder.mkdir(exist_ok=True, mode=0o700)
    made = Path(tempfile.mkdtemp(prefix="home-", dir=path.parent))
    for part in _PARTS:
        (made / part).symlink_to(package / part)  # `conf` is missing in most: a user may add it later
    try:
        made.rename(path)
    except OSError:
        shutil.rmtree(made)
        if not path.is_dir():  # nobody was faster
            raise


def _check_ours(folder: Path) -> None:
    """Code is run from there: nobody else may have made it, or be able to write there."""
    status = folder.lstat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise PermissionError(f"{folder} belongs to another user, or other users may write there")
