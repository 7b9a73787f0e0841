"""A log whose segments cannot be opened until the test lets them: it holds a slot inside its transaction."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Event, Semaphore
from typing import Any, BinaryIO, Final, cast

from connectors.log.place import LogPlace
from connectors.testing.sink_driver import SinkDriver
from twophase.participants import Committer
from wal.storage import Storage

_HELD_S: Final = 120.0


@dataclass
class Gate:
    """Holds each thread that opens a segment."""

    go: Event = field(default_factory=Event)
    _reached: Semaphore = field(default_factory=lambda: Semaphore(0))

    def await_held(self, threads: int = 1) -> None:
        """Return when so many threads wait at the gate."""
        for _ in range(threads):
            assert self._reached.acquire(timeout=_HELD_S), "the applier never opened its segment"

    def hold(self) -> None:
        """Wait until the test sets `go`."""
        self._reached.release()
        assert self.go.wait(_HELD_S), "the test never let the applier go"


class HeldStorage:
    """A storage behind a gate."""

    def __init__(self, storage: Storage, gate: Gate) -> None:
        self._storage = storage
        self._gate = gate

    def open(self, name: str) -> BinaryIO:
        self._gate.hold()
        return self._storage.open(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


@dataclass(frozen=True)
class HeldLog(LogPlace):
    """A log behind a gate. Not picklable."""

    gate: Gate = field(default_factory=Gate)

    def open(self) -> Storage:
        return cast("Storage", HeldStorage(super().open(), self.gate))


def log_of(driver: SinkDriver) -> LogPlace | None:
    """Return the log of the life's sink; None for two-phase commit."""
    return cast("LogPlace | None", getattr(driver.sink, "log", None))


def held_committer(driver: SinkDriver, gate: Gate) -> Committer:
    """Return a committer of this life whose slots stop at the gate, inside their transactions."""
    log = log_of(driver)
    assert log is not None
    sink: Any = driver.sink
    committer: Committer = replace(sink, log=HeldLog(log.at, log.slots, gate=gate)).committer(driver.pipeline)
    committer.inspect(driver.incarnation, ())
    return committer
