"""A driver is killed between any two steps of a checkpoint, and the next one goes on."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import ClassVar, Final

import pytest

from connectors.api.contracts import Sink
from connectors.testing.life import Life
from connectors.testing.rows import Row, batch, rows
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
_processes.set_forkserver_preload(["pandas", "pytest", "connectors.testing.life"])


class Killing:
    """See the module."""

    @pytest.mark.parametrize("step", STEPS)
    def test_a_driver_is_killed_after_each_step(self, life: Life, step: str) -> None:
        life.checkpoint(0, *_FIRST)
        receiving, sending = _processes.Pipe(duplex=False)
        scope = Scope(life.incarnation, life.epoch + 1, 1)
        told = (life.sink, life.pipeline, life.name, scope, step, sending)
        process = _processes.Process(target=_run, args=told, daemon=True)
        process.start()
        sending.close()
        try:
            while True:
                life.decided[1] = receiving.recv()  # as head would have it
        except EOFError:
            pass
        process.join(_WAIT_S)
        assert process.exitcode in (-signal.SIGKILL, 0), "the process failed instead of being killed"
        life.epoch = scope.epoch
        life.start()
        expected = [*_FIRST, *_SECOND] if 1 in life.decided else [*_FIRST]
        assert life.target.rows() == Counter(row for share in expected for row in share)
        if 1 not in life.decided:
            life.checkpoint(1, *_SECOND)
        life.checkpoint(2, rows(12, 13))
        assert life.target.rows() == Counter(rows(0, 13))
        assert life.prepared() == []


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


class Chance:
    """Behaviours under random faults."""

    events: ClassVar[int] = 30
    """How many come by chance, one after another; fewer for a service that takes its time to start."""

    @pytest.mark.parametrize("seed", range(3))
    def test_any_order_of_events(self, life: Life, seed: int) -> None:
        """Attempts, failed tries, decisions, commits and starts as chance will have it: at every moment what is seen
        is what was committed, and at the end what was decided."""
        chance = random.Random(seed)
        number, attempt, committed = 0, 1, Counter[Row]()
        for _ in range(self.events):
            event = chance.choice(("try", "fail", "decide", "start", "again"))
            if event == "again" and life.decided:
                life.commit(chance.choice(sorted(life.decided)))
                continue
            if event == "start":
                life.start()
                attempt = 1
                continue
            scope = life.permit(number, attempt)
            shares = [rows(number * 10 + task * 5, number * 10 + task * 5 + chance.randrange(5)) for task in range(2)]
            accepted = [life.prepare(scope, *share, task=task) for task, share in enumerate(shares)]
            assert life.target.rows() == committed
            if event == "fail":
                life.committer.abort([each for each in life.prepared() if _is_of(each.transaction, scope)])
                life.committer.revoke(scope)
                attempt += 1
                continue
            life.decided[number] = accepted
            committed.update(row for share in shares for row in share)
            if event == "decide":  # and killed right after
                life.start()
            else:
                life.commit(number)
                life.committer.revoke(scope)
            number, attempt = number + 1, 1
            assert life.target.rows() == committed
        life.start()
        assert life.target.rows() == committed
        assert committed.total() > 0
        assert life.prepared() == []


def _is_of(transaction: object, scope: Scope) -> bool:
    return getattr(transaction, "scope", None) == scope
