"""Files and folders that survive a power cut."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from threading import Thread


def sync(path: Path) -> None:
    """Make what is in a file, or the names in a folder, survive a power cut. Raises OSError."""
    _sync(path, 0)


def sync_all(paths: Sequence[Path]) -> None:
    """The same of several files and folders, in no order: a disk that has them at once is through in the time of one.

    Raises OSError, when all have been tried.
    """
    errors: list[OSError] = []

    def attempt(path: Path) -> None:
        try:
            sync(path)
        except OSError as error:
            errors.append(error)

    # Not a pool: it takes nothing once the interpreter is about to end, when a checkpoint may still be under way.
    threads = [Thread(target=attempt, args=(path,), name="eos-sync") for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut. Raises OSError, also for what is no folder."""
    _sync(folder, os.O_DIRECTORY)


def sync_folders(folder: Path) -> None:
    """Make the names in a folder and in those below it survive a power cut; their files are synced. Raises OSError."""
    for path in (each for each in folder.rglob("*") if each.is_dir()):
        sync(path)
    sync(folder)


def sync_ancestors(folder: Path) -> None:
    """Make the name of a folder, and the names of the folders above it, survive a power cut.

    Called where a path has to be found again after a power cut. A new folder may be below other new folders, and
    another process may have created them without a sync. Ends at the mount point: a mount makes that name.

    Raises OSError. A folder that this user can neither read nor write is skipped: this user created no name in it.
    """
    child = folder.resolve()
    device = child.stat().st_dev
    for parent in child.parents:
        if parent.stat().st_dev != device:
            return
        try:
            sync_folder(parent)
        except PermissionError:
            if os.access(parent, os.W_OK):
                raise


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
