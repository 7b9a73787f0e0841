"""What makes Spark start fast, in a folder of the user's cache: a home of Spark's, and an archive of its classes.

Spark puts `python/lib/pyspark.zip` of its home before everything else on the path of each Python process that it
starts. Those modules are not compiled, so that each process, and there are a dozen in the first seconds of a streaming
query, compiles PySpark again. In a home without that file they import the installed package, which is the same one.

Java maps Spark's ten thousand classes, parsed and verified, from an archive (JEP 350). A JVM writes an archive when it
ends, after the driver has gone. Java maps whatever it then finds, and dies of a file that is shorter than its beginning
says. So no JVM writes the file that others use: it writes one of its own, which a later start of this machine's uptime
makes durable and renames. What a crash of the machine leaves is not used.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyspark

_PARTS: Final = ("RELEASE", "bin", "conf", "data", "jars", "sbin")
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_LOG: Final = "-Xlog:disable -Xlog:all=warning,cds*=off:stderr"
"""By default Java writes to stdout, which is the command's, and hundreds of lines on classes that cannot be kept."""
_UNSUITABLE: Final = ':"\\'
"""Java takes a colon in a path for the end of the path, and Spark a quote for the end of the option."""
_UNFINISHED: Final = b"\0\0\0\0"
"""Java writes an archive's first bytes last."""


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


def archive_options(folder: Path, *, make: bool) -> list[str]:
    """Java's options for using the archive in a folder, or else, where `make` says so, for writing one.

    Called before a JVM starts; takes milliseconds, once a second. Java checks sums, its own version and the class path,
    and goes on without an archive that does not suit. Raises OSError.
    """
    if any(sign in str(folder) for sign in _UNSUITABLE):
        return []
    boot = _BOOT.read_text().strip()
    for written in folder.glob("written-*.jsa"):
        with suppress(FileNotFoundError):  # another start was faster
            if boot not in written.name:
                written.unlink()
            elif _is_finished(written):
                _adopt(written, folder)
    archive = _archive(folder)
    if archive is not None:
        return [_LOG, f'-XX:SharedArchiveFile="{archive}"', "-XX:+VerifySharedSpaces"]
    return [_LOG, f'-XX:ArchiveClassesAtExit="{folder}/written-{boot}-{os.getpid()}.jsa"'] if make else []


def _archive(folder: Path) -> Path | None:
    """The archive, whose name tells its size: Java would die of one that was cut."""
    for archive in folder.glob("classes-*.jsa"):
        if archive.stat().st_size == int(archive.stem.rpartition("-")[2]):
            return archive
        archive.unlink()
    return None


def _is_finished(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_UNFINISHED)) > _UNFINISHED


def _adopt(written: Path, folder: Path) -> None:
    if _archive(folder) is not None:  # others have ended a JVM at the same time
        written.unlink()
        return
    with written.open("rb") as file:
        os.fsync(file.fileno())
    written.rename(folder / f"classes-{written.stat().st_size}.jsa")
