"""A driver is killed between any two steps of a checkpoint, and the next one goes on."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Final

import pytest

from connectors.api.contracts import Sink
from connectors.testing.rows import Row, batch, rows
from connectors.testing.sink_driver import SinkDriver
from twophase import faults
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import Committable

STEPS: Final = (
    "claimed",
    "permitted",
    "writing",
    "prepared",
    "decided",
    "applying",
    "between-commits",
    "committed",
    "counted",
    "revoked",
)
"""After each of them the process is killed. Three are inside of a call: see `twophase.faults`."""

_FIRST: Final = (rows(0, 3), rows(3, 5))
_SECOND: Final = (rows(5, 9), rows(9, 12))
_WAIT_S: Final = 60.0

_processes: Final = get_context("forkserver")
_processes.set_forkserver_preload(["pandas", "pytest", "connectors.testing.sink_driver"])


class Killing:
    """See the module."""

    @pytest.mark.parametrize("step", STEPS)
    def test_a_driver_is_killed_after_each_step(self, driver: SinkDriver, step: str) -> None:
        driver.checkpoint(0, *_FIRST)
        receiving, sending = _processes.Pipe(duplex=False)
        scope = Scope(driver.incarnation, driver.epoch + 1, 1)
        told = (driver.sink, driver.pipeline, driver.name, scope, step, sending)
        process = _processes.Process(target=_run, args=told, daemon=True)
        process.start()
        sending.close()
        try:
            while True:
                driver.decided[1] = receiving.recv()  # as head would have it
        except EOFError:
            pass
        process.join(_WAIT_S)
        assert process.exitcode in (-signal.SIGKILL, 0), "the process failed instead of being killed"
        driver.epoch = scope.epoch
        driver.start()
        expected = [*_FIRST, *_SECOND] if 1 in driver.decided else [*_FIRST]
        assert driver.target.rows() == Counter(row for share in expected for row in share)
        if 1 not in driver.decided:
            driver.checkpoint(1, *_SECOND)
        driver.checkpoint(2, rows(12, 13))
        assert driver.target.rows() == Counter(rows(0, 13))
        assert driver.prepared() == []


def _run(sink: Sink, pipeline: str, named: str, scope: Scope, step: str, decided: Connection) -> None:
    """One start and one checkpoint, in a process that is killed after `step`."""

    def reach(name: str, checkpoint_id: int | None = None, sink: str = "") -> None:
        del checkpoint_id, sink
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    faults.point = reach
    committer = sink.committer(pipeline)
    committer.inspect(scope.incarnation, ())
    committer.claim(scope.incarnation, scope.epoch)
    reach("claimed")
    committer.permit(scope)
    reach("permitted")
    committables = [_prepare(sink, TransactionId(scope, sink_key(named), n, n + 1), r) for n, r in enumerate(_SECOND)]
    decided.send(committables)
    reach("decided")
    committer.commit(scope.checkpoint_id, committables)
    reach("committed")
    committer.count(scope.incarnation, scope.checkpoint_id, committables)
    reach("counted")
    committer.revoke(scope, counted=True)
    reach("revoked")


def _prepare(sink: Sink, transaction: TransactionId, share: Sequence[Row]) -> Committable:
    writer = sink.writer(transaction)
    writer.write(batch(*share).select(list(sink.columns)))
    return writer.prepare()
