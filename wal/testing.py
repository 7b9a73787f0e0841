"""Helpers of tests: the files of a log, and a disk that fails on request, to run the real `LocalStorage` on.

The disk has power cuts, torn writes, errors and no space left. It keeps apart what was written and what would survive
a power cut. `SimulatedFiles` goes on until its fault is due; after a power cut, `restarted` is the disk as the next
start may find it. What a disk does with what was not synced is up to `choose`, so that Hypothesis can look for the
worst.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import BinaryIO

Choose = Callable[[int], int]
"""`choose(n)` returns one of 0 … n-1. A `choose` that always returns 0 loses everything that was not synced."""


class PowerCutError(BaseException):
    """The machine is gone. Not an Exception: no code under test may catch it and go on."""


class FaultKind(Enum):
    """What the faulty call does."""

    POWER_CUT = "power cut"
    IO_ERROR = "input/output error"
    DISK_FULL = "no space left; what fitted of a write is there"


@dataclass(frozen=True, slots=True)
class Fault:
    """The call with this number, counted from 0, fails. The calls after it work again, except after a power cut."""

    call: int
    kind: FaultKind


@dataclass(slots=True)
class _Inode:
    data: bytearray = field(default_factory=bytearray)
    synced: int = 0  # as many bytes survive


class SimulatedFiles:
    """See Files. `calls` counts what was asked, so that a test can put a fault at every one of them."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.calls = 0
        self._fault = fault
        self._off = False
        self._names: dict[Path, _Inode] = {}
        self._durable: dict[Path, _Inode] = {}

    def make_folder(self, path: Path) -> None:
        """Folders are always there and durable."""

    def create(self, path: Path) -> _SimulatedFile:
        self._arrive()
        if path in self._names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        self._names[path] = _Inode()
        return _SimulatedFile(self, self._names[path])

    def open(self, path: Path) -> BinaryIO:
        self._arrive()
        return io.BytesIO(bytes(self._find(path).data))

    def link(self, source: Path, target: Path) -> None:
        self._arrive()
        if target in self._names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        self._names[target] = self._find(source)

    def unlink(self, path: Path) -> None:
        self._arrive()
        self._find(path)
        del self._names[path]

    def sync_folder(self, path: Path) -> None:
        self._arrive()
        self._durable = {name: inode for name, inode in self._durable.items() if name.parent != path}
        self._durable |= {name: inode for name, inode in self._names.items() if name.parent == path}

    def list(self, path: Path) -> Sequence[str]:
        self._arrive()
        return [name.name for name in self._names if name.parent == path]

    def restarted(self, choose: Choose) -> SimulatedFiles:
        """The disk after a power cut: each unsynced name is there or not, each unsynced byte right, wrong or gone."""
        after = SimulatedFiles()
        for name in sorted(self._names.keys() | self._durable.keys()):
            versions = [self._durable.get(name)]
            if self._names.get(name) is not versions[0]:
                versions.append(self._names.get(name))
            inode = versions[choose(len(versions))]
            if inode is not None:
                data = _survived(inode, choose)
                after._names[name] = after._durable[name] = _Inode(data, len(data))
        return after

    def append(self, inode: _Inode, data: bytes) -> None:
        """A write; a part of it on a full disk."""
        try:
            self._arrive()
        except OSError:
            inode.data += data[: len(data) // 2]
            raise
        inode.data += data

    def sync(self, inode: _Inode) -> None:
        """An fsync."""
        self._arrive()
        inode.synced = len(inode.data)

    def _find(self, path: Path) -> _Inode:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self._names[path]

    def _arrive(self) -> None:
        """Count the call, and fail if it is the one."""
        if self._off:
            raise PowerCutError
        number, self.calls = self.calls, self.calls + 1
        if self._fault is None or number != self._fault.call:
            return
        if self._fault.kind is FaultKind.POWER_CUT:
            self._off = True
            raise PowerCutError
        code = errno.ENOSPC if self._fault.kind is FaultKind.DISK_FULL else errno.EIO
        raise OSError(code, os.strerror(code))


class _SimulatedFile:
    def __init__(self, files: SimulatedFiles, inode: _Inode) -> None:
        self._files = files
        self._inode = inode

    def write(self, data: bytes | memoryview, /) -> int:
        self._files.append(self._inode, bytes(data))
        return len(data)

    def sync(self) -> None:
        self._files.sync(self._inode)

    def close(self) -> None:
        """Closing promises nothing."""


def _survived(inode: _Inode, choose: Choose) -> bytearray:
    """All that was synced; of the rest a part, in which a block may never have been written (the file only grew)."""
    rest = len(inode.data) - inode.synced
    kept = inode.synced + (choose(rest + 1) if rest else 0)
    hole = choose(kept - inode.synced + 1) if kept > inode.synced else 0
    return inode.data[: kept - hole] + bytearray(hole)


def files_in(folder: Path) -> list[Path]:
    """All files, at whatever depth, finished or not, sorted; none where there is no folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())
