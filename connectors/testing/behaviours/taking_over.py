"""A take-over by another incarnation while the older one still applies its log (H28)."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from threading import Event, Semaphore
from typing import Any, BinaryIO, ClassVar, Final, cast

import pytest

from connectors.log.place import LogPlace
from connectors.testing.rows import Row, rows
from connectors.testing.sink_driver import SinkDriver, new_incarnation
from eos.errors import ConnectorError
from twophase.participants import Committer
from wal.storage import Storage

_NEW: Row = (7, "new")
_HELD_S: Final = 120.0


class TakingOver:
    """Behaviours of a take-over by another incarnation."""

    claims_wait: ClassVar[bool] = True
    """Whether a claim waits for an applier that is not frozen; else the claim ends its transaction at once."""

    def test_h28_no_row_of_another_life_becomes_visible_after_a_take_over(self, driver: SinkDriver) -> None:
        if log_of(driver) is None:
            pytest.skip("not applicable: two-phase commit has no log that is applied")
        driver.checkpoint(0, rows(0, 3))
        slots, scope = max(driver.committer.slots), driver.permit(1)
        old = [(_NEW[0] + task, "old") for task in range(slots)]  # a row for each slot
        driver.decided[1] = [driver.prepare(scope, row, task=task) for task, row in enumerate(old)]
        gate = Gate()
        held = held_committer(driver, gate)
        other = SinkDriver(driver.target, driver.pipeline, incarnation=new_incarnation())

        def take_over() -> Counter[Row]:
            other.start(take_over=True)
            seen = driver.target.rows()
            other.checkpoint(0, [_NEW])
            return seen

        with ThreadPoolExecutor(2) as pool:
            older = pool.submit(held.commit, 1, driver.decided[1])
            gate.await_held(slots)
            newer = pool.submit(take_over)
            wait([newer], timeout=3 if self.claims_wait else 60)  # side by side they would fence each other in turn
            waited = not newer.done()
            gate.go.set()
            seen, failure = newer.result(60), older.exception(60)
        assert isinstance(failure, type(None) if self.claims_wait else ConnectorError)
        assert seen == Counter([*rows(0, 3), *(old if self.claims_wait else [])])
        assert waited or not self.claims_wait
        shown = Counter(seen)
        if driver.target.keyed:
            del shown[old[0]]
        assert driver.target.rows() == shown + Counter([_NEW])
        held.close()
        other.close()


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
