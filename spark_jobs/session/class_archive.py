"""Spark's ten thousand classes, parsed and verified, in a file that the next JVM maps (JEP 350).

A JVM writes an archive when it ends, after the driver has gone. Java maps whatever it then finds, and dies of a file
that is shorter than its beginning says. So no JVM writes the file that others use: it writes one of its own, which a
later start of this machine's uptime makes durable and renames. What a crash of the machine leaves is not used.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_LOG: Final = "-Xlog:disable -Xlog:all=warning,cds*=off:stderr"
"""By default Java writes to stdout, which is the command's, and hundreds of lines on classes that cannot be kept."""
_UNSUITABLE: Final = ':"\\'
"""Java takes a colon in a path for the end of the path, and Spark a quote for the end of the option."""
_UNFINISHED: Final = b"\0\0\0\0"
"""Java writes an archive's first bytes last."""


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
