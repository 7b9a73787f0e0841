"""Folders that nobody else on the machine can look into: rows, positions and what users wrote lie there."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from wal.durable import sync, sync_ancestors

PRIVATE: Final = 0o700


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, for this user alone. What exists keeps its mode.

    Whoever wants others to read there makes the folder beforehand. A power cut may take the folder: see `make_durable`.
    Raises OSError.
    """
    if folder.is_dir():
        return
    make_private(folder.parent)
    folder.mkdir(mode=PRIVATE, exist_ok=True)


def private_file(path: str, flags: int) -> int:
    """Open a file as `open(…, opener=private_file)` does: only this user can access a new file. Raises OSError."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def make_durable(folder: Path) -> None:
    """Make a folder as `make_private` does, and make its path survive a power cut, whoever created it. Raises OSError.

    The names in the folder are not synced.
    """
    make_private(folder)
    sync_ancestors(folder)


def replace_durably(path: Path, content: bytes) -> None:
    """Have a file with this content, which a power cut leaves: this one, or as a whole the one that was there before.

    Makes its folder as `make_durable` does. Raises OSError; then nothing of the content is left.
    """
    partial = path.with_name(f".{secrets.token_hex(8)}.partial")
    make_durable(path.parent)
    try:
        partial.write_bytes(content)
        sync(partial)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    sync(path.parent)
