"""Files and folders that survive a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Make what is in a file, or the names in a folder, survive a power cut. Raises OSError."""
    _sync(path, 0)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut. Raises OSError, also for what is no folder."""
    _sync(folder, os.O_DIRECTORY)


def sync_folders(folder: Path) -> None:
    """Make the names in a folder and in those below it survive a power cut; their files are synced. Raises OSError."""
    for path in (each for each in folder.rglob("*") if each.is_dir()):
        sync(path)
    sync(folder)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
