"""H26 on played servers: the count of a sink moves with its witnesses, and never over a hole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eos.errors import FencedError, SetBackError
from tests.played.script import Changed
from tests.played.two_phase import OURS, SERVERS, Played, transaction
from twophase.values import Committable

FIRST, SECOND = (Committable(transaction(task), rows=3) for task in range(2))
NONE = Committable(transaction(9), rows=0, data={"empty": "1"})
SLOT = "SELECT checkpoint_id FROM eos_slot.*FOR UPDATE"
SLOTS = "SELECT slot, checkpoint_id FROM eos_slot"
MOVING = "UPDATE eos_slot"
SHOWN = "SELECT checkpoint_id, epoch, attempt, task, task_attempt FROM eos_witness"


@pytest.fixture(params=SERVERS)
def played(request: pytest.FixtureRequest) -> Iterator[Played]:
    with SERVERS[request.param]() as found:
        yield found


def shown(*witnesses: Committable) -> list[tuple[int, ...]]:
    """What a plain read of the witnesses shows."""
    found = [each.transaction for each in witnesses]
    return [(t.scope.checkpoint_id, t.scope.epoch, t.scope.attempt, t.task, t.task_attempt) for t in found]


def test_the_count_moves_by_one_when_every_witness_is_shown(played: Played) -> None:
    played.script.on(SLOT, [(6,)])
    played.script.on(SHOWN, shown(FIRST, SECOND))
    played.committer.count(OURS, 7, [FIRST, SECOND, NONE])
    (moved,) = played.script.statements(MOVING)
    assert "SET checkpoint_id = 7 WHERE" in moved
    assert played.script.order(SLOT, SHOWN, MOVING, "^COMMIT") == [SLOT, SHOWN, MOVING, "^COMMIT"]


@pytest.mark.parametrize(("count", "witnesses"), [(6, [FIRST]), (7, [FIRST]), (6, []), (5, [FIRST, SECOND]), (-1, [])])
def test_over_a_hole_the_count_does_not_move(played: Played, count: int, witnesses: list[Committable]) -> None:
    """Not where it stood already, either: a witness that was counted is missing now."""
    played.script.on(SLOT, [(count,)])
    played.script.on(SHOWN, shown(*witnesses))
    with pytest.raises(SetBackError):
        played.committer.count(OURS, 7, [FIRST, SECOND])
    assert played.script.order(MOVING, "^COMMIT", "^ROLLBACK") == ["^ROLLBACK"]


def test_a_count_is_made_once(played: Played) -> None:
    played.script.on(SLOT, [(7,)], [(9,)], [])
    played.script.on(SHOWN, shown(FIRST))
    for _ in range(3):  # at the checkpoint, behind it, and of an earlier version that did not count
        played.committer.count(OURS, 7, [FIRST])
    assert played.script.statements(MOVING) == []


@pytest.mark.parametrize(
    ("slots", "begins", "begun"),
    [([(0, 6)], -1, []), ([], 4, ["0, 4"]), ([(0, 6), (1, 5), (2, 6)], -1, ["0, 5"]), ([(1, 6)], -1, ["0, 6"])],
)
def test_a_claim_begins_to_count_where_the_sink_is(
    played: Played, slots: list[tuple[int, int]], begins: int, begun: list[str]
) -> None:
    """Of a log's slots the one that is behind tells: what another one has applied is committed once more."""
    played.owned()
    played.script.on(SLOTS, slots, *([slots] if not begun else []), [])
    played.script.on("INSERT INTO eos_slot", lambda _: Changed(1))
    played.committer.claim(OURS, 1, begins=begins)
    inserted = played.script.statements("INSERT INTO eos_slot")
    assert [each.partition("', ")[2].rpartition("', ")[2].rstrip(")") for each in inserted] == begun
    assert bool(played.script.statements("DELETE FROM eos_slot")) == (len(slots) > 1 or slots == [(1, 6)])


@pytest.mark.parametrize(
    ("found", "known", "refused"), [(5, 6, True), (6, 6, False), (None, 6, True), (None, -1, False)]
)
def test_a_claim_compares_the_count(played: Played, found: int | None, known: int, refused: bool) -> None:
    played.owned()
    played.script.on(SLOTS, [] if found is None else [(0, found)])
    if refused:
        with pytest.raises(SetBackError):
            played.committer.claim(OURS, 1, begins=-1, counted=known)
    else:
        played.committer.claim(OURS, 1, begins=-1, counted=known)


def test_what_a_start_reads_of_the_sink(played: Played) -> None:
    played.owned(3)
    played.script.on(SHOWN, shown(FIRST))
    played.script.on("MAX.checkpoint_id", [(7,)])
    played.script.on(SLOTS, [(0, 6)])
    state = played.committer.inspect(OURS, [FIRST, SECOND, NONE])
    assert (state.claim_incarnation, state.claim_epoch) == (OURS, 3)
    assert (state.highest_witness, state.counted) == (7, 6)
    assert state.missing == (SECOND.transaction,)


def test_a_start_from_a_savepoint_raises_the_count_as_its_owner_only(played: Played) -> None:
    played.owned()
    played.committer.fast_forward(OURS, 1, 9)
    (raised,) = played.script.statements(MOVING)
    assert "checkpoint_id = 9" in raised
    assert "checkpoint_id < 9" in raised
    played.owned(2)
    with pytest.raises(FencedError):
        played.committer.fast_forward(OURS, 1, 9)
    assert len(played.script.statements(MOVING)) == 1


@pytest.mark.parametrize("newer", [True, False])
def test_witnesses_are_pruned_without_a_range_that_could_wait_for_a_prepared_one(played: Played, newer: bool) -> None:
    """A DELETE of a range locks the record behind it, which is prepared unless a newer checkpoint is visible."""
    key = (OURS, FIRST.transaction.sink, 3, 1, 1, 0, 11)
    played.script.on("MAX.checkpoint_id", [(7 if newer else 3,)])
    played.script.on("SELECT incarnation, sink, checkpoint_id", [key])
    played.committer.prune(OURS, 7)
    (deleted,) = played.script.statements("DELETE FROM eos_witness")
    assert ("task_attempt" in deleted) != newer
    assert "checkpoint_id < 7" in deleted if newer else "checkpoint_id = 3" in deleted


def test_pruning_waits_for_nobody(played: Played) -> None:
    played.script.on("MAX.checkpoint_id", [(7,)])
    played.script.on("DELETE FROM eos_witness", played.lock_wait)
    played.committer.prune(OURS, 7)
    assert len(played.script.statements("DELETE FROM eos_witness")) == 1
