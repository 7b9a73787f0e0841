"""R3, R5, R8 and R9 on played servers: permits, claims and rollbacks, with what can happen between two statements."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from connectors.sql import claims
from connectors.sql.claims import appliers, control
from connectors.sql.two_phase import permits, undoing
from connectors.sql.two_phase.permits import holders
from eos.errors import FencedError, IdentityError, SetBackError, SinkUnavailableError
from tests.played.script import Answer, Refused
from tests.played.two_phase import (
    CLAIM,
    DELETING_PERMIT,
    LISTING,
    OURS,
    PIPELINE,
    ROLLING_BACK,
    SERVERS,
    SINK,
    THEIRS,
    WITNESS,
    Played,
    transaction,
)
from twophase.ids import Scope, sink_key
from twophase.participants import Prepared

MINE = transaction()
SCOPE = MINE.scope
INSERTING = "INSERT INTO eos_permit"
COUNT = "SELECT slot, checkpoint_id FROM eos_slot"
AT = "SELECT checkpoint_id, EXISTS.*eos_witness.* FROM eos_slot"
BEGINNING = "START TRANSACTION|^BEGIN"
OLDER = "SELECT incarnation, epoch, checkpoint_id, attempt FROM eos_permit"


@pytest.fixture(params=SERVERS)
def played(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    monkeypatch.setattr(permits, "_EVICTION_S", 5.0)
    monkeypatch.setattr(undoing, "_PATIENCE_S", 5.0)
    with SERVERS[request.param]() as found:
        found.script.on("SELECT attempt FROM eos_permit", [(1,)])
        found.script.on("XA START", Refused(1440))  # the branch is listed: nobody is reminded
        yield found


def test_r5_a_permit_is_given_under_the_lock_of_the_claim_row(played: Played) -> None:
    played.owned()
    played.committer.permit(SCOPE)
    assert played.script.order(BEGINNING, CLAIM, INSERTING, "^COMMIT") == [BEGINNING, CLAIM, INSERTING, "^COMMIT"]


@pytest.mark.parametrize(("epoch", "incarnation"), [(2, OURS), (1, THEIRS)])
def test_r5_no_permit_for_who_does_not_own_the_claim(played: Played, epoch: int, incarnation: str) -> None:
    played.owned(epoch, incarnation)
    with pytest.raises(FencedError):
        played.committer.permit(SCOPE)
    assert played.script.order(INSERTING, "^ROLLBACK", "^COMMIT") == ["^ROLLBACK"]


@pytest.mark.parametrize(("counts", "refused"), [([(5, 0)], True), ([], True), ([(6, 0)], False)])
def test_h26_no_permit_on_a_server_that_counts_less(
    played: Played, counts: list[tuple[int, int]], refused: bool
) -> None:
    played.owned()
    played.script.on(AT, counts)
    if refused:
        with pytest.raises(SetBackError, match="had counted up to 6"):
            played.committer.permit(SCOPE, counted=6)
    else:
        played.committer.permit(SCOPE, counted=6)
    assert bool(played.script.statements(INSERTING)) != refused


@pytest.mark.parametrize("counts", [[(7, 0)], [(8, 0)], [(6, 1)]])
def test_h33_no_permit_on_a_server_that_has_the_checkpoint(played: Played, counts: list[tuple[int, int]]) -> None:
    """It counts it, or shows something of it."""
    played.owned()
    played.script.on(AT, counts)
    with pytest.raises(SetBackError, match="already has checkpoint 7"):
        played.committer.permit(SCOPE, counted=6)
    assert played.script.statements(INSERTING) == []


def test_r9_what_is_prepared_is_rolled_back_before_its_permit_goes(played: Played) -> None:
    """On MySQL it keeps the permit locked, and the DELETE would wait for it."""
    others = (transaction(checkpoint_id=8), replace(MINE, sink=sink_key("another")), transaction(epoch=2))
    played.script.on(LISTING, played.lists(MINE, *others), played.lists(*others))
    played.committer.revoke(SCOPE)
    assert played.script.order(ROLLING_BACK, DELETING_PERMIT) == [ROLLING_BACK, DELETING_PERMIT]
    (undone,) = played.script.statements(ROLLING_BACK)
    assert str(MINE) in undone or MINE.branch.encode().hex() in undone


def test_r9_what_is_prepared_while_the_permit_is_waited_for_is_rolled_back_too(played: Played) -> None:
    """MariaDB lets go of the permit when a branch is prepared: the DELETE goes through, and the branch is there."""
    played.script.on(LISTING, [], played.lists(MINE), played.lists(MINE), [])
    played.committer.revoke(SCOPE)
    order = played.script.order(DELETING_PERMIT, ROLLING_BACK)
    assert order[:2] == [DELETING_PERMIT, ROLLING_BACK]


def test_r9_a_permit_goes_only_when_its_branches_are_gone(played: Played) -> None:
    """What a server answers to a rollback says nothing: a connection that closes may hold the branch still (H19)."""
    played.script.on(LISTING, *[played.lists(MINE)] * 5, [])
    played.committer.revoke(SCOPE)
    assert len(played.script.statements(ROLLING_BACK)) == 3


def test_r8_permits_of_this_try_and_earlier_ones_go(played: Played) -> None:
    played.script.on("SELECT attempt FROM eos_permit.*attempt <= 2", [(1,), (2,)])
    played.committer.revoke(replace(SCOPE, attempt=2))
    assert len(played.script.statements(DELETING_PERMIT)) == 2


def test_r5_a_writer_that_keeps_its_permit_is_ended(played: Played) -> None:
    def mysql_locks(statement: str) -> Answer:
        """Of the names of a group, two are in use, and one is that of this very connection."""
        return [(1, 77, 1, *[None] * (statement.count("IS_USED_LOCK") - 2))]

    played.script.on("IS_USED_LOCK", mysql_locks)
    played.script.on("KILL", Refused(1094, "Unknown thread id"))  # it has gone by itself
    played.script.on("pg_terminate_backend", [(True,)])
    played.script.on(DELETING_PERMIT, played.lock_wait, [])
    played.committer.revoke(SCOPE)
    assert played.script.order(DELETING_PERMIT, played.end) == [DELETING_PERMIT, played.end, DELETING_PERMIT]
    (ended,) = played.script.statements(played.end)
    assert ended == "KILL 77" or "pid <> pg_backend_pid()" in ended


def test_r5_a_writer_is_waited_for_and_no_longer(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permits, "_EVICTION_S", 0.0)
    played.script.on("IS_USED_LOCK", lambda statement: [(1, *[None] * statement.count("IS_USED_LOCK"))])
    played.script.on(DELETING_PERMIT, played.lock_wait)
    with pytest.raises(SinkUnavailableError, match="still holds its permit"):
        played.committer.revoke(SCOPE)


def test_h26_nothing_is_rolled_back_on_a_server_that_counts_less(played: Played) -> None:
    """A copy may hold prepared what is decided."""
    played.script.on(COUNT, [(0, 6)])
    played.script.on(LISTING, played.lists(MINE), [])
    with pytest.raises(SetBackError):
        played.committer.revoke(SCOPE, counted=True)
    assert played.script.statements(f"{ROLLING_BACK}|{DELETING_PERMIT}") == []
    played.script.on(COUNT, [(0, 7)])
    played.committer.revoke(SCOPE, counted=True)
    assert played.script.order(ROLLING_BACK, DELETING_PERMIT) == [ROLLING_BACK, DELETING_PERMIT]


@pytest.mark.parametrize("take_over", [False, True])
def test_r3_what_another_incarnation_prepared_is_left_alone(played: Played, take_over: bool) -> None:
    """It may be decided, in a head that this pipeline does not read."""
    theirs = transaction(incarnation=THEIRS)
    played.owned(2, THEIRS if take_over else OURS)
    played.script.on(COUNT, [(0, -1)])
    played.script.on(OLDER, [(THEIRS, 1, 7, 1)])
    played.script.on(LISTING, played.lists(theirs))
    with pytest.raises(IdentityError, match=str(theirs)):
        played.committer.claim(OURS, 2, take_over=take_over, begins=-1)
    assert played.script.statements(f"{ROLLING_BACK}|{DELETING_PERMIT}") == []
    if take_over:
        assert played.script.statements("UPDATE eos_claim") == [], "it is taken over before anybody asked"


def test_r3_a_claim_deletes_the_permits_of_older_epochs(played: Played) -> None:
    played.script.on(CLAIM, [(OURS, 1)], [(OURS, 2)])
    played.script.on(COUNT, [(0, 6)])
    played.script.on(OLDER, [(OURS, 1, 7, 1), (OURS, 1, 7, 2)])
    played.committer.claim(OURS, 2, begins=6, counted=6)
    assert len(played.script.statements(DELETING_PERMIT)) == 2
    (asked,) = played.script.statements(OLDER)
    assert f"NOT (incarnation = '{OURS}' AND epoch >= 2)" in asked
    assert played.script.order(CLAIM, "UPDATE eos_claim", "^COMMIT")[:3] == [CLAIM, "UPDATE eos_claim", "^COMMIT"]


@pytest.mark.parametrize(
    ("found", "take_over", "error"),
    [
        ((OURS, 3), False, FencedError),
        ((THEIRS, 1), False, IdentityError),
        ((OURS, 2), False, None),
        ((THEIRS, 9), True, None),
    ],
)
def test_r3_who_may_raise_the_claim(
    played: Played, found: tuple[str, int], take_over: bool, error: type[Exception] | None
) -> None:
    played.script.on(CLAIM, [found], [(OURS, 2)])
    played.script.on(COUNT, [(0, 6)])
    if error is None:
        played.committer.claim(OURS, 2, take_over=take_over, begins=6)
    else:
        with pytest.raises(error):
            played.committer.claim(OURS, 2, take_over=take_over, begins=6)
    assert bool(played.script.statements("UPDATE eos_claim")) == (error is None)


@pytest.mark.parametrize("found", [[], [(THEIRS, 1)]])
def test_h26_a_claim_row_that_is_gone_is_a_sink_that_went_back(played: Played, found: list[tuple[str, int]]) -> None:
    played.script.on(CLAIM, found)
    with pytest.raises(SetBackError):
        played.committer.claim(OURS, 2, begins=6, counted=6)
    assert played.script.statements("(UPDATE|INTO) eos_claim") == []


def test_two_drivers_that_claim_first_at_once(played: Played) -> None:
    played.script.on(CLAIM, [])
    played.script.on("INSERT INTO eos_claim", played.duplicate)
    with pytest.raises(SinkUnavailableError, match="another driver claimed it at this moment"):
        played.committer.claim(OURS, 1, begins=-1)


def test_h28_a_claim_ends_appliers_and_claims_that_are_frozen(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "FROZEN_S", 0.7)

    def waited(_statement: str) -> Answer:
        time.sleep(0.72)
        return played.lock_wait

    played.script.on(CLAIM, waited, [(OURS, 1)], [(OURS, 2)])
    played.script.on(COUNT, [(0, 6)])
    played.script.on("IS_USED_LOCK", lambda statement: [(1, *[None] * statement.count("IS_USED_LOCK"))])
    played.committer.claim(OURS, 2, begins=6)
    asked = played.script.statements("IS_USED_LOCK|pg_terminate_backend")
    marks = {word for each in asked for word in each.replace("'", " ").split() if word.startswith("eos-")}
    key = sink_key(SINK)
    with played.connect() as marked:
        for name in (appliers(PIPELINE, key), control(PIPELINE, key)):
            marked.end(name)
    wanted = {
        word
        for each in played.script.statements("IS_USED_LOCK|pg_terminate_backend")[len(asked) :]
        for word in each.replace("'", " ").split()
        if word.startswith("eos-")
    }
    assert marks == wanted


def test_a_claim_that_nobody_lets_go_of_is_given_up(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "FROZEN_S", 0.0)
    played.script.on(CLAIM, played.lock_wait)
    with pytest.raises(SinkUnavailableError):
        played.committer.claim(OURS, 2, begins=6)


def test_r8_a_rollback_is_repeated_until_the_branch_is_gone(played: Played) -> None:
    played.script.on(LISTING, played.lists(MINE), played.lists(MINE), [])
    played.committer.abort([Prepared(MINE, "mine")])
    assert len(played.script.statements(ROLLING_BACK)) == 3


def test_r8_a_rollback_that_is_not_known_is_looked_up(played: Played) -> None:
    played.script.on(ROLLING_BACK, played.unknown, played.wrong_state, played.unknown)
    played.script.on(WITNESS, played.lock_wait, [])  # a commit under way, and then none
    played.committer.abort([Prepared(MINE, "mine")])
    assert len(played.script.statements(ROLLING_BACK)) == 2


def test_r8_a_rollback_of_what_is_committed_is_refused(played: Played) -> None:
    played.script.on(ROLLING_BACK, played.unknown)
    played.script.on(WITNESS, [(1,)])
    with pytest.raises(IdentityError, match="is committed, so it cannot be rolled back"):
        played.committer.abort([Prepared(MINE, "mine")])


def test_h24_a_reminder_beside_what_is_committed_is_rolled_back(played: Played) -> None:
    """Its name was known, and is gone: the witness is that of the transaction which it named."""
    played.script.on(WITNESS, [(1,)])
    played.committer.abort([Prepared(MINE, "mine")])
    assert len(played.script.statements(ROLLING_BACK)) == 1


def test_r8_a_rollback_that_fails_otherwise_is_an_error(played: Played) -> None:
    played.script.on(ROLLING_BACK, Refused(1021 if played.unknown.code == 1397 else "53100", "disk full"))
    with pytest.raises(SinkUnavailableError, match="disk full"):
        played.committer.abort([Prepared(MINE, "mine")])


def test_a_rollback_is_waited_for_and_no_longer(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undoing, "_PATIENCE_S", 0.0)
    played.script.on(LISTING, played.lists(MINE))
    with pytest.raises(SinkUnavailableError, match="is still prepared"):
        played.committer.abort([Prepared(MINE, "mine")])


def test_what_is_prepared_is_listed_with_its_sink_and_incarnation_only(played: Played) -> None:
    played.script.on("SELECT checkpoint_id.*FROM eos_witness", [])
    others = (transaction(incarnation=THEIRS), replace(MINE, sink=sink_key("another")))
    played.script.on(LISTING, played.lists(MINE, *others))
    assert [each.transaction for each in played.committer.prepared(OURS)] == [MINE]
    for listing in played.script.statements("pg_prepared_xacts"):
        assert "WHERE database = current_database()" in listing  # of another one nothing could be ended from here


def test_the_mark_of_a_permit_s_writers_is_that_of_the_permit() -> None:
    assert holders(SCOPE, "k") != holders(replace(SCOPE, attempt=2), "k")
    assert holders(Scope(OURS, 1, 7), "k") == holders(SCOPE, "k")
