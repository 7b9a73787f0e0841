"""Answers that are lost: the driver makes each call once more, and cannot know whether the first one landed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from connectors.testing.rows import Row, rows
from connectors.testing.sink_driver import SinkDriver
from eos.errors import FencedError

_CHECKPOINTS = 6


@dataclass
class _Repeating:
    """A committer whose every answer may be lost: the call is then made again."""

    committer: Any
    chance: random.Random
    repeated: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.committer, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = found(*args, **kwargs)
            while name not in self.repeated or self.chance.random() < 0.4:
                self.repeated.append(name)
                answer = found(*args, **kwargs)
            return answer

        return call


@dataclass
class _RepeatingSink:
    """The same sink, with such committers."""

    sink: Any
    chance: random.Random
    committers: list[_Repeating] = field(default_factory=list)

    def committer(self, pipeline: str) -> _Repeating:
        self.committers.append(_Repeating(self.sink.committer(pipeline), self.chance))
        return self.committers[-1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sink, name)


class Repeating:
    """See the module."""

    @pytest.mark.parametrize("seed", range(2))
    def test_each_call_may_be_made_twice(self, driver: SinkDriver, seed: int) -> None:
        """R7: each call of a committer is idempotent."""
        sink: Any = _RepeatingSink(driver.sink, random.Random(seed))
        driver.sink = sink
        expected = Counter[Row]()
        for number in range(_CHECKPOINTS):
            driver.start()
            shares = [rows(number * 10, number * 10 + 3), rows(number * 10 + 3, number * 10 + 5)]
            driver.checkpoint(number, *shares)
            expected.update(row for share in shares for row in share)
            assert driver.target.rows() == expected
        driver.start()
        assert driver.target.rows() == expected
        assert driver.prepared() == []
        repeated = {name for each in sink.committers for name in each.repeated}
        assert {"inspect", "claim", "permit", "commit", "count", "revoke", "prepared"} <= repeated

    def test_two_drivers_at_once_write_each_row_once(self, driver: SinkDriver) -> None:
        """The older one wakes up between any two calls of the newer one, and goes on with what it had decided."""
        scope = driver.permit(0)
        driver.decided[0] = [driver.prepare(scope, *rows(0, 3)), driver.prepare(scope, *rows(3, 5), task=1)]
        old, epoch = driver.committer, driver.epoch
        steps: list[Callable[[], object]] = [
            lambda: old.commit(0, driver.decided[0]),
            lambda: old.count(driver.incarnation, 0, driver.decided[0]),
            lambda: old.revoke(scope, counted=True),
        ]
        for step in steps:
            driver.start()
            _as_a_zombie(step)
        driver.checkpoint(1, rows(5, 8))
        for step in steps:
            _as_a_zombie(step)
        with pytest.raises(FencedError):
            old.claim(driver.incarnation, epoch)
        driver.checkpoint(2, rows(8, 9))
        assert driver.target.rows() == Counter(rows(0, 9))
        assert driver.prepared() == []
        old.close()


def _as_a_zombie(step: Callable[[], object]) -> None:
    """A driver that was superseded is fenced, or what it does is done already."""
    with suppress(FencedError):
        step()
