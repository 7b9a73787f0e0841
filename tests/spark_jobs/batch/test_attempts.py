"""What follows a try of a batch that has failed."""

from __future__ import annotations

import pytest

from eos.errors import BadRowError, ConnectorError, PrepareError, RowLockedError
from spark_jobs.batch.attempts import BatchAttempts
from spark_jobs.batch.sifting_period import RejectionPeriod

BAD, LOCKED, LOST = BadRowError("too long"), RowLockedError("another task waits"), PrepareError("a worker is gone")


def _tries(
    checkpoint_id: int = 7,
    *,
    stateful: bool = False,
    letters: int | None = None,
    may_meet: bool = False,
    period: RejectionPeriod | None = None,
) -> BatchAttempts:
    return BatchAttempts(checkpoint_id, stateful, letters, may_meet, period or RejectionPeriod())


@pytest.mark.parametrize("direct", [False, True])
def test_rows_that_are_refused_are_put_aside_once(direct: bool) -> None:
    tries = _tries(letters=1000)
    before = tries.bisector
    assert before is None
    assert tries.failed(BAD, direct=direct).again
    assert tries.bisector == 1000
    assert not tries.failed(BAD, direct=direct).again


@pytest.mark.parametrize("stateful", [False, True])
def test_a_row_that_is_refused_is_an_error_without_dead_letters(stateful: bool) -> None:
    tries = _tries(stateful=stateful)
    assert not tries.failed(BAD, direct=False).again
    assert (tries.bisector, tries.period.resumes(BAD)) == (None, False)


@pytest.mark.parametrize("direct", [False, True])
def test_with_state_the_next_query_sifts_its_first_try(direct: bool) -> None:
    """A batch runs once in a query. A second refusal of the same checkpoint, which was sifted, is an error."""
    period = RejectionPeriod()
    assert not _tries(letters=1000, stateful=True, period=period).failed(BAD, direct=direct).again
    assert not period.resumes(BadRowError("too long"))  # another error, though it reads the same
    assert period.resumes(BAD)
    assert not period.resumes(BAD)
    tries = _tries(letters=1000, stateful=True, period=period)
    assert tries.bisector == 1000
    assert not tries.failed(BAD, direct=direct).again
    assert not period.resumes(BAD)


def test_after_a_refusal_at_least_once_the_checkpoints_of_a_period_are_sifted_at_once() -> None:
    """A second try would repeat what tasks have committed. The period is counted from the newest refused row."""
    period = RejectionPeriod()
    assert _tries(letters=1000, period=period).failed(BAD, direct=True).again
    assert [_tries(at, letters=1000, period=period).bisector for at in (7, 107, 108)] == [1000, 1000, None]
    _tries(50, letters=1000, period=period).refused()
    assert [_tries(at, letters=1000, period=period).bisector for at in (150, 151)] == [1000, None]
    _tries(151, letters=1000, period=period).refused()
    assert _tries(151, letters=1000, period=period).bisector is None
    assert _tries(50, period=period).bisector is None


def test_exactly_once_without_state_only_the_checkpoint_with_the_row_is_sifted() -> None:
    period = RejectionPeriod()
    tries = _tries(letters=1000, period=period)
    assert tries.failed(BAD, direct=False).again
    tries.refused()
    assert _tries(8, letters=1000, period=period).bisector is None


def test_equal_rows_are_looked_for_once() -> None:
    tries = _tries(may_meet=True)
    assert tries.failed(LOCKED, direct=False).again
    first = tries.locked
    assert first is LOCKED
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


@pytest.mark.parametrize("reason", [LOST, BAD])
@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("direct", [False, True])
def test_other_failures_end_the_batch(reason: ConnectorError, stateful: bool, direct: bool) -> None:
    failed = _tries(stateful=stateful).failed(reason, direct=direct)
    assert (failed.error, failed.again) == (reason, False)
