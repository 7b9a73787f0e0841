"""Whether a folder can be written the way head writes: exclusive files, hard links, and a sync that answers."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def existing(path: Path) -> Path:
    """The nearest folder above, or the path itself, that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def why_not_writable(path: Path) -> str | None:
    """What fails when head's way of writing is tried in the folder (or where it would be made); None: nothing does.

    Leaves nothing behind.
    """
    folder = path
    try:
        folder = existing(path)
        if not folder.is_dir():
            return f"{folder} is not a folder"
        with tempfile.TemporaryDirectory(dir=folder, prefix=".eos-doctor-") as scratch:
            first = Path(scratch, "a")
            with first.open("xb") as file:
                os.fsync(file.fileno())
            os.link(first, Path(scratch, "b"))
    except OSError as error:
        return f"{error.strerror}: {folder}"
    return None
