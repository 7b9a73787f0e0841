"""Few queries start at a time, and one that does not get on keeps no other waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from spark_jobs.run.query_starts import QueryStart, started


def _never() -> bool:
    return False


@pytest.fixture
def full() -> Iterator[list[QueryStart]]:
    """As many as may start at once."""
    with ExitStack() as held:
        starts = [held.enter_context(started(_never)) for _ in range(4)]
        yield [each for each in starts if each is not None]


def _one_more(is_stopping: Callable[[], bool] = _never) -> tuple[threading.Event, list[QueryStart | None]]:
    """Return an event that is set once a fifth query has started, or does not start, and its start."""
    over, found = threading.Event(), list[QueryStart | None]()

    def start() -> None:
        with started(is_stopping) as one:
            found.append(one)
        over.set()

    threading.Thread(target=start, daemon=True).start()
    return over, found


def test_a_fifth_query_starts_once_one_of_four_is_planned(full: list[QueryStart]) -> None:
    over, found = _one_more()
    full[0].look(_never)
    assert not over.wait(0.5)
    full[0].look(lambda: True)
    assert over.wait(5)
    assert isinstance(found[0], QueryStart)


def test_a_query_gives_its_place_away_once(full: list[QueryStart]) -> None:
    for _ in range(2):
        full[0].look(lambda: True)
    full[0].end()
    with started(_never) as fifth:
        assert fifth is not None
        over, _ = _one_more()
        assert not over.wait(0.5)
    assert over.wait(5)


def test_a_query_that_hangs_for_ten_seconds_keeps_its_place_no_longer(full: list[QueryStart]) -> None:
    assert 9 < full[0].until_s - time.monotonic() <= 10
    over, _ = _one_more()
    assert not over.wait(0.5)
    full[0].until_s = time.monotonic()  # without a call by its thread
    assert over.wait(5)


def test_a_query_that_is_to_stop_does_not_start(full: list[QueryStart]) -> None:
    over, found = _one_more(lambda: True)
    assert over.wait(5)
    assert found == [None]
    assert len(full) == 4


def test_a_query_that_fails_gives_its_place_away(full: list[QueryStart]) -> None:
    full[0].end()
    with pytest.raises(OSError, match="no Spark"), started(_never):
        raise OSError("no Spark")
    with started(_never) as after:
        assert after is not None
