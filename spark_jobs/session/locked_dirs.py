"""Folders that are being filled: held by their writer, swept away once that is dead."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from wal.private import PRIVATE, make_private

LOCK: Final = ".lock"
"""In a folder that is being written: held by its writer, so that others know whether that one lives."""
_UNHELD: Final = ".lock.new"
_SWEPT: Final = ".swept"
_JUST_S: Final = 60.0


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder that nobody sweeps away while this process lives and is in this block."""
    make_private(folder.parent)
    folder.mkdir(mode=PRIVATE)
    with (folder / _UNHELD).open("x") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        (folder / _UNHELD).rename(folder / LOCK)  # held from the first moment, or a sweep would take it as abandoned
        yield


@contextmanager
def temporary(parent: Path) -> Iterator[Path]:
    """An empty folder for this block. What killed processes have left beside it is deleted. Raises OSError."""
    folder = parent / secrets.token_hex(8)
    try:
        sweep(parent.glob("*/"))
        with locked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def temporary_at(location: Path, name: str) -> Iterator[Path]:
    """Create the same in `name` at a checkpoint location, with the access rights of the location.

    The location's disk has room for state, and workers on other machines can write there.
    """
    make_private(location)
    with temporary(location / name) as folder:
        for each in (folder.parent, folder):
            each.chmod(stat.S_IMODE(location.stat().st_mode))
        yield folder


def sweep(folders: Iterable[Path]) -> None:
    """Delete those of these folders that processes which were killed have left.

    Each is renamed first. A writer that was frozen before it renames its folder then finds none, and not half of it.
    """
    for folder in folders:
        if is_abandoned(folder):
            with suppress(OSError):  # deleted meanwhile, or another user's
                shutil.rmtree(_renamed(folder), ignore_errors=True)


def _renamed(folder: Path) -> Path:
    """Rename a folder, unless that was done. Its name begins and ends as before, so that the next sweep finds it."""
    if _SWEPT in folder.suffixes:
        return folder
    return folder.rename(folder.with_name(f"{folder.stem}{_SWEPT}{folder.suffix}"))


def is_abandoned(folder: Path) -> bool:
    """Whether nobody writes this unfinished folder any more. False for another user's folder."""
    try:
        with open(folder / LOCK, opener=_at_once) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except FileNotFoundError:  # just made, or just to be renamed; or its writer died there
        return folder.is_dir() and time.time() - folder.stat().st_mtime > _JUST_S
    return True


def _at_once(path: str, flags: int) -> int:
    """Open a file without a wait: in a folder that others may write to, it may be a pipe."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
