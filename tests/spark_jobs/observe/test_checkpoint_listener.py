"""The user's listener gets each visible checkpoint at least once, whatever process dies in between."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.spec import Spec, load_spec
from spark_jobs.observe.checkpoint_listener import NAME, CompletedCheckpoint, Deliveries, listened
from spark_jobs.observe.report import Listener as Told
from tests.twophase_values import INCARNATION, record
from twophase.codec import encode_head
from twophase.head_value import HeadValue, Origin
from twophase.local_head import LocalHead
from twophase.news import CommittedUpTo, Decided
from twophase.status import Status

SPEC = """\
pipeline: orders
checkpoint: {location: state}
sources:
  - {name: s, connector: kafka, bootstrap_servers: a, topics: [t], format: {type: raw}}
sinks:
  - {name: out, from: s, connector: sqlite, path: out.db, table: t, commit: write-ahead-log}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    (tmp_path / "spec.yaml").write_text(SPEC)
    return load_spec(tmp_path / "spec.yaml", {})


class Listener:
    """What it was called with; it raises as long as `failures` says."""

    def __init__(self) -> None:
        self.got: list[CompletedCheckpoint] = []
        self.failures = 0
        self.error: BaseException = ZeroDivisionError()
        self.gate = threading.Event()
        self.gate.set()

    def on_checkpoint_completed(self, checkpoint: CompletedCheckpoint) -> None:
        assert self.gate.wait(20)
        self.got.append(checkpoint)
        if self.failures:
            self.failures -= 1
            raise self.error

    @property
    def ids(self) -> list[int]:
        return [each.checkpoint_id for each in self.got]


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _complete(deliveries: Told, number: int) -> None:
    deliveries.on_driver_event(Decided(record(number)))
    deliveries.on_driver_event(CommittedUpTo(INCARNATION, number))


def _head(spec: Spec, committed: int, completed: int | None = None) -> Status:
    """Write head as a killed driver has left it; what a start reads there."""
    completed = committed if completed is None else completed
    head = HeadValue("orders", INCARNATION, 4, ("n",), completed=completed, committed=committed, sinks=("out",))
    store = LocalHead(spec.checkpoint.folder)
    assert store.swap(store.read(), encode_head(head))
    return Status(head, tuple(record(n) for n in range(completed, max(completed - 3, -1), -1)))


def test_a_checkpoint_is_told_once_it_is_visible(spec: Spec) -> None:
    listener = Listener()
    with listened(spec, listener) as (deliveries,):
        deliveries.on_driver_event(Decided(record(0)))
        time.sleep(0.1)
        assert listener.got == []
        deliveries.on_driver_event(CommittedUpTo(INCARNATION, 0))
        _await(lambda: listener.ids == [0])
        deliveries.on_driver_event(Decided(record(1)))
        deliveries.on_driver_event(Decided(record(2)))
        deliveries.on_driver_event(CommittedUpTo(INCARNATION, 2))
    assert listener.ids == [0, 1, 2]
    first, found = listener.got[0], record(0)
    assert first == CompletedCheckpoint(
        "orders", INCARNATION, 0, found.decided_at, found.records, {"warehouse": found.rows}, found.ranges
    )


_KILLED = """
import os, sys
from pathlib import Path
from connectors.spec import load_spec
from spark_jobs.observe.checkpoint_listener import Deliveries
from tests.twophase_values import INCARNATION, record
from twophase.news import CommittedUpTo, Decided

killed_at = int(sys.argv[2])

class Listener:
    def on_checkpoint_completed(self, checkpoint):
        if checkpoint.checkpoint_id == killed_at:
            os._exit(9)  # in the call: as good as before it

deliveries = Deliveries(load_spec(Path(sys.argv[1]), {}), Listener())
if killed_at < 0:
    os._exit(9)  # every sink shows checkpoint 0, and this process does not know it
for number in range(3):
    deliveries.on_driver_event(Decided(record(number)))
    deliveries.on_driver_event(CommittedUpTo(INCARNATION, number))
deliveries.close()
"""


@pytest.mark.parametrize("killed_at", [-1, 0, 1, 2])
def test_a_kill_between_visible_and_called(spec: Spec, tmp_path: Path, killed_at: int) -> None:
    """The first checkpoint of a pipeline too, of which no cursor knows."""
    command = [sys.executable, "-c", _KILLED, str(tmp_path / "spec.yaml"), str(killed_at)]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], check=False, timeout=120)
    assert done.returncode == 9
    status, listener = _head(spec, committed=2), Listener()
    with listened(spec, listener) as (deliveries,):
        deliveries.on_status(status)
        _complete(deliveries, 3)
    assert listener.ids == [*range(max(killed_at, 0), 4)]
    assert all(each.rows is not None for each in listener.got)


def test_a_listener_that_is_new_begins_behind_the_newest_checkpoint(spec: Spec) -> None:
    status, listener = _head(spec, committed=7), Listener()
    with listened(spec, listener) as (deliveries,):
        deliveries.on_status(status)
        _complete(deliveries, 8)
    assert listener.ids == [8]


def test_a_decided_checkpoint_that_a_start_commits(spec: Spec) -> None:
    listener = Listener()
    with listened(spec, listener) as (deliveries,):
        deliveries.on_status(_head(spec, committed=-1, completed=0))
        time.sleep(0.1)
        assert listener.got == []
        deliveries.on_driver_event(CommittedUpTo(INCARNATION, 0))
    assert listener.ids == [0]


def test_what_head_no_longer_retains_is_told_without_its_figures(spec: Spec) -> None:
    listener = Listener()
    with listened(spec, listener) as (deliveries,):
        _complete(deliveries, 0)
    later = Listener()
    with listened(spec, later) as (deliveries,):
        deliveries.on_status(_head(spec, committed=5))
    assert later.ids == [1, 2, 3, 4, 5]
    assert [each.rows is not None for each in later.got] == [False, False, True, True, True]


def test_another_life_counts_from_its_own_first_checkpoint(spec: Spec) -> None:
    with listened(spec, Listener()) as (deliveries,):
        for number in range(4):
            _complete(deliveries, number)
    listener = Listener()
    with listened(spec, listener) as (deliveries,):
        first = record(0)
        other = replace(first, scope=replace(first.scope, incarnation="b" * 20))
        deliveries.on_driver_event(Decided(other))
        deliveries.on_driver_event(CommittedUpTo("b" * 20, 0))
    assert [(each.incarnation, each.checkpoint_id) for each in listener.got] == [("b" * 20, 0)]
    assert json.loads((spec.checkpoint.folder / NAME).read_text())["incarnation"] == "b" * 20


def _as(status: Status, incarnation: str, origin: Origin | None) -> Status:
    records = [replace(each, scope=replace(each.scope, incarnation=incarnation)) for each in status.checkpoints]
    return Status(replace(status.head, incarnation=incarnation, origin=origin), tuple(records))


@pytest.mark.parametrize("origin", [None, Origin("sp", -1, None), Origin("sp", 2, None)])
def test_another_life_that_ran_without_a_listener_is_told_from_its_begin(spec: Spec, origin: Origin | None) -> None:
    """Head retains the newest records, and the life from a savepoint is born with the record of another life."""
    with listened(spec, Listener()) as (deliveries,):
        _complete(deliveries, 0)
    listener = Listener()
    with listened(spec, listener) as (deliveries,):
        deliveries.on_status(_as(_head(spec, committed=7), "b" * 20, origin))
    assert listener.ids == [*range(0 if origin is None else origin.checkpoint_id + 1, 8)]
    assert [each.rows is not None for each in listener.got][-3:] == [True] * 3


def test_a_life_from_a_savepoint_is_told_nothing_at_its_birth(spec: Spec) -> None:
    with listened(spec, Listener()) as (deliveries,):
        _complete(deliveries, 0)
    listener = Listener()
    with listened(spec, listener) as (deliveries,):
        deliveries.on_status(_as(_head(spec, committed=3), "b" * 20, Origin("sp", 3, None)))
    assert listener.ids == []


def test_checkpoints_whose_number_nobody_knows_are_logged(spec: Spec, caplog: pytest.LogCaptureFixture) -> None:
    """Head could not be read as the run began."""
    with listened(spec, Listener()) as (deliveries,):
        _complete(deliveries, 0)
    listener = Listener()
    with listened(spec, listener) as (deliveries,):
        of = record(5)
        deliveries.on_driver_event(Decided(replace(of, scope=replace(of.scope, incarnation="b" * 20))))
        deliveries.on_driver_event(CommittedUpTo("b" * 20, 5))
    assert listener.ids == [5]
    assert "not called for up to 5 checkpoints before checkpoint 5" in caplog.text


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), KeyboardInterrupt()])
def test_no_error_ends_the_calls(spec: Spec, caplog: pytest.LogCaptureFixture, error: BaseException) -> None:
    listener = Listener()
    listener.failures, listener.error = 1, error
    deliveries = Deliveries(spec, listener, again_s=0.01)
    _complete(deliveries, 0)
    _complete(deliveries, 1)
    _await(lambda: listener.ids == [0, 0, 1])
    deliveries.close()
    assert "the listener failed at checkpoint 0" in caplog.text


def test_a_listener_that_fails_is_called_again(spec: Spec, caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener()
    listener.failures = 2
    deliveries = Deliveries(spec, listener, again_s=0.01)
    _complete(deliveries, 0)
    _complete(deliveries, 1)
    _await(lambda: listener.ids == [0, 0, 0, 1])
    deliveries.close()
    assert "the listener failed at checkpoint 0" in caplog.text


def test_a_slow_listener_holds_up_nobody(spec: Spec) -> None:
    listener = Listener()
    listener.gate.clear()
    deliveries = Deliveries(spec, listener)
    before_s = time.monotonic()
    for number in range(50):
        _complete(deliveries, number)
    assert time.monotonic() - before_s < 5
    listener.gate.set()
    deliveries.close()
    assert listener.ids == [*range(50)]


@pytest.mark.parametrize("content", ["", "{}", '{"format": 2, "incarnation": "a", "handled": 1}', '{"format": 1}'])
def test_a_damaged_cursor_is_told(spec: Spec, caplog: pytest.LogCaptureFixture, content: str) -> None:
    spec.checkpoint.folder.mkdir()
    (spec.checkpoint.folder / NAME).write_text(content)
    with listened(spec, Listener()):
        pass
    assert "listener.json is damaged" in caplog.text
