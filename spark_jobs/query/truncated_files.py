"""Files of Spark's logs that a power cut has left empty or cut off: Spark renames them into place and syncs nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from wal.durable import sync

_VERSION: Final = re.compile(r"v[0-9]+")


def plan_is_cut(path: Path) -> bool:
    """Whether `offsets/N` is there and not whole: a version, metadata, and for each source a line of JSON or `-`."""
    text = _text(path)
    if text is None:
        return False
    version, *lines = text.split("\n")
    whole = _VERSION.fullmatch(version) and len(lines) > 1 and all(each == "-" or _parses(each) for each in lines)
    return not whole


def commit_is_cut(path: Path) -> bool:
    """Whether `commits/N` is there and not whole. Where a query has no state Spark takes the version alone as well."""
    try:
        return is_cut_commit(path.read_bytes())
    except FileNotFoundError:
        return False


def is_cut_commit(content: bytes) -> bool:
    """Whether this content of `commits/N` is not whole."""
    version, _, document = _decoded(content).partition("\n")
    return _VERSION.fullmatch(version) is None or (document != "" and not _parses(document))


def identity_is_cut(path: Path) -> bool:
    """Whether `metadata` is there and not whole."""
    text = _text(path)
    return text is not None and not _parses(text)


def newest_whole(commits: Path) -> int:
    """The newest file of `commits/` that Spark can read; -1: none."""
    return next((number for number in reversed(numbers(commits)) if not commit_is_cut(commits / str(number))), -1)


def numbers(log: Path) -> list[int]:
    """The entries of one of Spark's logs, in their order."""
    if not log.is_dir():
        return []
    return sorted(int(path.name) for path in log.iterdir() if path.name.isdecimal())


def drop(log: Path, name: str) -> None:
    """Delete a file of Spark's, and before it the one with its checksums: Spark reads a file without that as well."""
    (log / f".{name}.crc").unlink(missing_ok=True)
    (log / name).unlink(missing_ok=True)
    sync(log)


def _text(path: Path) -> str | None:
    """None: it is not there. What is no text is taken for empty; zero bytes are text, and no JSON."""
    try:
        return _decoded(path.read_bytes())
    except FileNotFoundError:
        return None


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return ""


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
