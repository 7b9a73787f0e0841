"""What follows a try of a batch that has failed."""

from __future__ import annotations

import pytest

from spark_jobs.tolerance import Tolerance
from spark_jobs.tries import Tries
from twophase.errors import BadRowError, ConnectorError, PrepareError, RowLockedError

BAD, LOCKED, LOST = BadRowError("too long"), RowLockedError("another task waits"), PrepareError("a worker is gone")


def _tries(*, stateful: bool = False, letters: int | None = None, may_meet: bool = False, tolerable: int = 0) -> Tries:
    return Tries(7, stateful, letters, may_meet, Tolerance(tolerable))


@pytest.mark.parametrize("direct", [False, True])
def test_rows_that_are_refused_are_put_aside_once(direct: bool) -> None:
    tries = _tries(letters=1000)
    assert tries.sieve is None
    assert tries.failed(BAD, direct=direct).again
    assert tries.sieve == 1000
    assert not tries.failed(BAD, direct=direct).again


@pytest.mark.parametrize("tries", [_tries(), _tries(letters=1000, stateful=True)])
def test_a_row_that_is_refused_is_an_error_without_dead_letters_and_with_state(tries: Tries) -> None:
    assert not tries.failed(BAD, direct=False).again
    assert tries.sieve is None


def test_equal_rows_are_looked_for_once() -> None:
    tries = _tries(may_meet=True)
    assert tries.failed(LOCKED, direct=False).again
    assert tries.locked is LOCKED
    assert tries.looked(LOCKED).again  # as usual this time: a look is not decided
    assert tries.locked is None
    assert not tries.failed(LOCKED, direct=False).again
    assert tries.locked is None


def test_what_ends_a_look_is_told() -> None:
    tries = _tries(may_meet=True)
    tries.failed(LOCKED, direct=False)
    failed = tries.failed(BAD, direct=False)
    assert (failed.error, failed.again, tries.locked) == (BAD, False, None)


def test_no_look_where_equal_rows_meet_anyway_or_are_committed_at_once() -> None:
    assert not _tries().failed(LOCKED, direct=False).again
    assert not _tries(may_meet=True).failed(LOCKED, direct=True).again


@pytest.mark.parametrize(
    ("reason", "stateful", "direct", "again"),
    [(LOST, False, False, True), (LOST, True, False, False), (LOST, False, True, False), (BAD, False, False, False)],
)
def test_what_is_tolerated(reason: ConnectorError, stateful: bool, direct: bool, again: bool) -> None:
    assert _tries(stateful=stateful, tolerable=1).failed(reason, direct=direct).again is again


def test_a_pause_comes_before_a_try_that_is_tolerated_and_a_stop_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[bool] = [True, False]  # the second one is ended by a stop
    monkeypatch.setattr(Tolerance, "pause", lambda self: pauses.pop(0))
    tries = _tries(letters=1000, tolerable=2)
    assert tries.begin() is None
    assert len(pauses) == 2
    tries.failed(LOST, direct=False)
    assert tries.begin() is None
    assert len(pauses) == 1
    tries.failed(BAD, direct=False)  # is sifted at once
    assert tries.begin() is None
    assert len(pauses) == 1
    tries.failed(LOST, direct=False)
    stopped = tries.begin()
    assert stopped is not None
    assert (stopped.error, stopped.again) == (LOST, False)
