"""A power cut on a real folder: what was not synced to disk is lost, as in the worst case that POSIX permits."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

import pytest

_RANDOM = re.compile(r"[0-9a-f]{16}|(?<=[.-])[0-9a-f]{6,8}(?=[.-]|$)")  # in the names of files that are being written


class Names(Enum):
    """What a power cut does to names that were given or removed since their folder was last synced."""

    UNDONE = "names as they were when their folder was last synced"
    KEPT = "all names as they are"


class Content(Enum):
    """What a power cut leaves of a file whose content was not synced."""

    EMPTY = "nothing"
    HALF = "the first half"


_CUTS = [(names, content) for names in Names for content in Content]


class Disk:
    """A folder on a disk, and what of it is durable. Everything that exists at the start is."""

    def __init__(self, root: Path, lies_about: Collection[str] = ()) -> None:
        """`lies_about`: for these paths, as `synced` names them, fsync returns and syncs nothing."""
        self.synced: list[str] = []  # paths, relative to the folder, random parts as `*`
        self._root = root
        self._lies_about = lies_about
        self._content: dict[int, bytes] = {}  # by inode, of files: as the last fsync found it
        self._names: dict[int, dict[str, int]] = {}  # by inode, of folders: the inode of each name
        self._held: dict[int, int] = {}  # by inode: a descriptor, so that the system gives its number to nothing else
        self.sync_all()

    def sync(self, descriptor: int) -> None:
        """What fsync does, as far as it concerns this folder."""
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if not path.is_relative_to(self._root):
            return
        name = _RANDOM.sub("*", path.relative_to(self._root).as_posix())
        self.synced.append(name)
        if name not in self._lies_about:
            self._note(path)

    def sync_all(self) -> None:
        """What sync does."""
        for path in self._all():
            self._note(path)

    def cut(self, names: Names, content: Content) -> None:
        """Leave the folder as the next start finds it. What was written there belongs to processes that are dead."""
        there = {self._hold(path): path for path in self._all()}
        folders = {number: self._listed(path) for number, path in there.items() if path.is_dir()}
        files = {number: path.read_bytes() for number, path in there.items() if path.is_file()}
        if names is Names.UNDONE:
            folders = {number: self._names.get(number, {}) for number in {*folders, *self._names}}
        files = {number: data[: len(data) // 2] if content is Content.HALF else b"" for number, data in files.items()}
        files |= self._content

        def restore(path: Path, number: int) -> None:
            if number in folders:
                path.mkdir(exist_ok=True)
                for name, each in folders[number].items():
                    restore(path / name, each)
            else:
                path.write_bytes(files.get(number, b""))
            path.chmod(stat.S_IMODE(os.fstat(self._held[number]).st_mode))

        empty(self._root)
        restore(self._root, self._root.stat().st_ino)

    def close(self) -> None:
        """Let the inodes go."""
        for descriptor in self._held.values():
            os.close(descriptor)

    def _all(self) -> list[Path]:
        return [self._root, *self._root.rglob("*")]

    def _note(self, path: Path) -> None:
        number = self._hold(path)
        if path.is_dir():
            self._names[number] = self._listed(path)
        else:
            self._content[number] = path.read_bytes()

    def _listed(self, folder: Path) -> dict[str, int]:
        return {path.name: self._hold(path) for path in folder.iterdir()}

    def _hold(self, path: Path) -> int:
        number = path.stat().st_ino
        if number not in self._held:
            self._held[number] = os.open(path, os.O_RDONLY)
        return number


@contextmanager
def disk(root: Path, lies_about: Collection[str] = ()) -> Iterator[Disk]:
    """Watch what this process syncs below `root`, for this block, instead of syncing it: the real disk takes its time.

    Not seen is what a library in C or another process syncs.
    """
    found = Disk(root, lies_about)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", found.sync)
        patch.setattr(os, "sync", found.sync_all)
        try:
            yield found
        finally:
            found.close()


def survives(root: Path, write: Callable[[], object], check: Callable[[], object]) -> set[str]:
    """Assert that `check` passes after each kind of power cut. Return the paths whose sync `check` does not need.

    Such a sync may be forgotten, and no test notices it.

    Args:
        root: an empty folder.
        write: does below `root` what has to be durable when it returns. It is called several times, each time with an
            empty folder.
        check: raises an Exception where something of it is gone.
    """
    synced = {name for cut in _CUTS for name in _cut(root, write, check, cut)}
    return {name for name in synced if not _is_needed(root, write, check, name)}


def empty(folder: Path) -> None:
    """Delete everything in a folder."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _is_needed(root: Path, write: Callable[[], object], check: Callable[[], object], name: str) -> bool:
    try:
        for cut in _CUTS:
            _cut(root, write, check, cut, {name})
    except Exception:  # noqa: BLE001 - whatever it is that notices the forgotten sync
        return True
    return False


def _cut(
    root: Path,
    write: Callable[[], object],
    check: Callable[[], object],
    cut: tuple[Names, Content],
    lies_about: Collection[str] = (),
) -> list[str]:
    empty(root)
    with disk(root, lies_about) as found:
        write()
        found.cut(*cut)
    check()
    return found.synced
