"""The disk of a checkpoint location: it can be full, and parts of it can be read-only. Needs the right to mount."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import time
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_SIZE_MB: Final = 512
_BUSY_S: Final = 10.0
PARTS: Final = ("head", "spark")


class Disk:
    """A file system in memory, at `folder`; where that is not `is_real`, a folder. Use as a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_real = os.getuid() == 0 and _can_mount(folder)
        self._ballast = folder / ".ballast"

    def fill(self) -> None:
        """Leave no byte free."""
        with self._ballast.open("wb", buffering=0) as file:
            for size in (65_536, 1):
                while not _has_no_room(file, bytes(size)):
                    pass

    def is_full(self) -> bool:
        """Whether not even a byte can be written."""
        with self._ballast.open("ab", buffering=0) as file:
            return _has_no_room(file, b"\0")

    def free(self) -> None:
        """Give the space back."""
        self._ballast.unlink(missing_ok=True)

    def lose(self) -> None:
        """Delete all files, as a new machine has none."""
        for each in self.folder.iterdir():
            files = each.iterdir() if self.is_real and each.name in PARTS else (each,)
            for file in files:
                if file.is_dir():
                    shutil.rmtree(file)
                else:
                    file.unlink()

    def forbid(self, part: str) -> None:
        """Make a part read-only as soon as nobody is in the middle of writing there, if that is so within seconds."""
        deadline = time.monotonic() + _BUSY_S
        while not _done("mount", "-o", "remount,bind,ro", str(self.folder / part)) and time.monotonic() < deadline:
            time.sleep(0.01)

    def is_forbidden(self, part: str) -> bool:
        """Whether nothing can be written there."""
        return bool(os.statvfs(self.folder / part).f_flag & os.ST_RDONLY)

    def allow(self, part: str) -> None:
        """Make it writable again."""
        subprocess.run(["mount", "-o", "remount,bind,rw", self.folder / part], check=True)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.is_real:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SIZE_MB}m", "tmpfs", self.folder], check=True)
            for part in PARTS:
                (self.folder / part).mkdir()
                subprocess.run(["mount", "--bind", self.folder / part, self.folder / part], check=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_real:
            for each in (*(self.folder / part for part in PARTS), self.folder):
                subprocess.run(["umount", "-l", each], check=True)


def _has_no_room(file: FileIO, content: bytes) -> bool:
    try:
        file.write(content)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return True
    return False


def _can_mount(folder: Path) -> bool:
    probe = folder.with_name(f"{folder.name}-probe")
    probe.mkdir(parents=True)
    try:
        return _done("mount", "-t", "tmpfs", "tmpfs", str(probe)) and _done("umount", str(probe))
    finally:
        probe.rmdir()


def _done(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
