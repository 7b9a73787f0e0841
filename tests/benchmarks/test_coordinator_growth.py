"""Nothing that the coordinator does grows faster than what a checkpoint has of anything.

Counted at small sizes; `make scale` times the same at large ones (docs/explanation/scale.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.coordinator.coordinator import ROWS, Coordinator, Size, resized
from benchmarks.coordinator.counting import growth, listings, peak_bytes, steps
from benchmarks.coordinator.leftovers import INCARNATION, CountedServer, LeftInLog, SharedLog, decided, transactions
from twophase.ids import Scope
from twophase.participants import Prepared
from twophase.values import CommitOutcome

_LINEAR = 1.03
_SIZE = Size(tasks=2, sinks=1, splits=2, stored=4)
_SMALLEST = {"tasks": 20, "sinks": 20, "splits": 20, "stored": 40}
_HELD = {"tasks": 80, "sinks": 80, "splits": 160, "stored": 160}
"""Memory that is larger than the buffer of a file, which has 128 KiB in Python 3.14."""

of_each = pytest.mark.parametrize("of", _SMALLEST)


def _folder(parent: Path) -> Path:
    folder = parent / str(len(list(parent.iterdir())))
    folder.mkdir()
    return folder


@of_each
def test_the_work_of_a_checkpoint_is_linear(tmp_path: Path, of: str) -> None:
    def counted(number: int) -> int:
        size = resized(_SIZE, of, number)
        with Coordinator(_folder(tmp_path), size, threads=False) as coordinator:
            coordinator.complete(coordinator.batch())  # the first one fills caches
            batch = coordinator.batch()
            found = steps(lambda: coordinator.complete(batch))
            assert {sink.rows for sink in coordinator.sinks.values()} == {2 * ROWS * size.tasks}, "nothing was left out"
        return found

    assert growth(counted, _SMALLEST[of]) <= _LINEAR


def test_the_work_of_a_checkpoint_that_prunes_is_linear(tmp_path: Path) -> None:
    def counted(stored: int) -> int:
        with Coordinator(_folder(tmp_path), replace(_SIZE, stored=stored, pruned=True), threads=False) as coordinator:
            batch = coordinator.batch()
            found = steps(lambda: coordinator.complete(batch))
            assert coordinator.head.calls["delete_record"] == stored + 1 - stored // 2
        return found

    assert growth(counted, _SMALLEST["stored"]) <= _LINEAR


@of_each
def test_what_a_checkpoint_writes_and_holds_is_linear(tmp_path: Path, of: str) -> None:
    calls = []

    def counted(number: int) -> int:
        with Coordinator(_folder(tmp_path), resized(_SIZE, of, number), threads=False) as coordinator:
            coordinator.complete(coordinator.batch())
            batch, before = coordinator.batch(), coordinator.head.written_bytes.total()
            coordinator.head.calls.clear()
            coordinator.complete(batch)
            calls.append(coordinator.head.calls)
            return coordinator.head.written_bytes.total() - before

    def held(number: int) -> int:
        with Coordinator(_folder(tmp_path), resized(_SIZE, of, number), threads=False) as coordinator:
            coordinator.complete(coordinator.batch())
            batch = coordinator.batch()
            return peak_bytes(lambda: coordinator.complete(batch))

    assert growth(counted, _SMALLEST[of]) <= _LINEAR
    assert calls == [{"put_record": 1, "swap": 2}] * 4, "head is asked as often, however large a checkpoint is"
    assert growth(held, _HELD[of]) <= 1.25


def test_a_start_rolls_back_in_linear_time() -> None:
    def asked(tasks: int) -> int:
        server = CountedServer(transactions(tasks))
        server.committer().abort([Prepared(each, str(each)) for each in transactions(tasks)])
        assert server.prepared() == []
        return server.asked

    assert growth(asked, 20) <= _LINEAR


@pytest.mark.parametrize("half", ["committed", "lost"])
def test_a_start_commits_again_in_linear_time(half: str) -> None:
    """A driver was killed half way through the commits; or somebody has rolled half of them back."""

    def asked(tasks: int) -> int:
        committables = decided(tasks)
        first, second = transactions(tasks)[: tasks // 2], transactions(tasks)[tasks // 2 :]
        server = CountedServer(second, first if half == "committed" else [])
        before = CommitOutcome.ALREADY_COMMITTED if half == "committed" else CommitOutcome.LOST
        outcomes = server.committer().commit(0, committables)
        assert outcomes == [before] * len(first) + [CommitOutcome.COMMITTED] * len(second)
        return server.asked

    assert growth(asked, 20) <= _LINEAR


def test_a_start_takes_segments_away_in_linear_time(tmp_path: Path) -> None:
    def counted(tasks: int) -> int:
        with closing(LeftInLog(_folder(tmp_path), tasks)) as left, closing(left.committer()) as committer:

            def start() -> None:
                committer.inspect(INCARNATION, ())
                committer.claim(INCARNATION, 2)
                found = committer.prepared(INCARNATION)
                assert len(found) == tasks // 2
                committer.abort(found)

            found = steps(start)
            assert committer.prepared(INCARNATION) == []
        return found

    assert growth(counted, 20) <= _LINEAR


@pytest.mark.parametrize("doing", ["a start", "a checkpoint"])
def test_sinks_that_share_a_log_list_their_own_segments(tmp_path: Path, doing: str) -> None:
    tasks = 3

    def counted(sinks: int) -> int:
        with listings() as gone_through, ExitStack() as stack:
            log = SharedLog(_folder(tmp_path), sinks)
            committers = log.committers()
            for committer in committers.values():
                stack.callback(committer.close)
            acknowledged = log.prepare(0, tasks)
            if doing == "a checkpoint":
                for committer in committers.values():
                    _start(committer)
                    committer.permit(Scope(INCARNATION, 2, 0))
            gone_through.clear()
            for name, committer in committers.items():
                if doing == "a start":
                    assert len(_start(committer)) == tasks
                else:
                    assert committer.commit(0, acknowledged[name]) == [CommitOutcome.COMMITTED] * tasks
                    assert committer.prepared(INCARNATION, 0) == []
                    committer.prune(INCARNATION, 1)
            assert sum(gone_through) >= sinks * tasks
        return sum(gone_through)

    assert growth(counted, 10) <= _LINEAR


def _start(committer: Any) -> Sequence[Prepared]:
    committer.inspect(INCARNATION, ())
    committer.claim(INCARNATION, 2)
    found: Sequence[Prepared] = committer.prepared(INCARNATION)
    return found
