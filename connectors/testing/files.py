"""What lies in the folder of a log."""

from __future__ import annotations

from pathlib import Path


def files_in(folder: Path) -> list[Path]:
    """All files, at whatever depth, finished or not, sorted; none where there is no folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())
