"""Folders that nobody else on the machine can look into: rows, positions and what users wrote lie there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PRIVATE: Final = 0o700


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, for this user alone. What exists keeps its mode.

    Whoever wants others to read there makes the folder beforehand. Raises OSError.
    """
    if folder.is_dir():
        return
    make_private(folder.parent)
    folder.mkdir(mode=PRIVATE, exist_ok=True)
