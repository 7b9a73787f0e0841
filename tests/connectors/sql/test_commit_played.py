"""R7 on played servers: what becomes of a COMMIT whose outcome the server does not say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eos.errors import PrepareError, SinkUnavailableError
from tests.played.script import Changed, Cut, Refused
from tests.played.two_phase import COMMITTING, LISTING, SERVERS, WITNESS, Played, transaction
from twophase.values import CommitOutcome, Committable

MINE = transaction()
ROWS = Committable(MINE, rows=3)
NONE = Committable(transaction(9), rows=0, data={"empty": "1"})


@pytest.fixture(params=SERVERS)
def played(request: pytest.FixtureRequest) -> Iterator[Played]:
    with SERVERS[request.param]() as found:
        found.script.on("SELECT checkpoint_id.*FROM eos_witness", [])
        yield found


def seen(*witnesses: Committable) -> list[tuple[int, ...]]:
    """What a plain read of the witnesses shows."""
    found = [each.transaction for each in witnesses]
    return [(t.scope.checkpoint_id, t.scope.epoch, t.scope.attempt, t.task, t.task_attempt) for t in found]


def test_an_answer_that_the_server_means_is_believed(played: Played) -> None:
    played.script.on("SELECT checkpoint_id.*FROM eos_witness", seen(ROWS))
    assert played.committer.commit(7, [ROWS, NONE]) == [CommitOutcome.COMMITTED] * 2
    assert len(played.script.statements(COMMITTING)) == 1
    assert played.script.statements(LISTING) == []


@pytest.mark.parametrize("said", ["unknown", "wrong_state", "lock_wait", "lost"])
@pytest.mark.parametrize(
    ("listings", "witness", "outcome"),
    [
        ((True,), (), CommitOutcome.RETRY_LATER),  # the COMMIT never arrived, or the connection is closing still
        ((False,), (1,), CommitOutcome.ALREADY_COMMITTED),
        ((False, False), (0,), CommitOutcome.LOST),
        ((False, True), (0,), CommitOutcome.RETRY_LATER),  # prepared by a restart of the server between the two
        ((False,), (None,), CommitOutcome.RETRY_LATER),  # another commit of it holds the witness
    ],
)
def test_an_unknown_outcome_is_looked_up(
    played: Played,
    said: str,
    listings: tuple[bool, ...],
    witness: tuple[int | None, ...],
    outcome: CommitOutcome,
) -> None:
    script = played.script
    script.on(COMMITTING, Cut() if said == "lost" else getattr(played, said))
    script.on(LISTING, *(played.lists(MINE) if listed else [] for listed in listings))
    script.on(WITNESS, *(played.lock_wait if each is None else [(1,)] * each for each in witness))
    script.on("XA START", Refused(1440))  # so that nobody is reminded: the branch is listed
    assert played.committer.commit(7, [ROWS]) == [outcome]
    asked = {number for number, each in script.asked if "XA COMMIT" in each or "COMMIT PREPARED" in each}
    looked = {number for number, each in script.asked if "RECOVER" in each or "pg_prepared_xacts" in each}
    assert (asked & looked == set()) == (said == "lost"), "a connection that is gone is not asked once more"


def test_one_commit_needs_no_option_of_the_connection(played: Played) -> None:
    """A proxy may not know it. The first transaction is committed by itself, and often there is no other one."""
    played.script.on("SELECT checkpoint_id.*FROM eos_witness", seen(ROWS))
    assert played.committer.commit(7, [ROWS]) == [CommitOutcome.COMMITTED]
    assert played.script.options == 0


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_of_several_that_are_sent_in_one_piece_one_is_unknown(played: Played, at: int) -> None:
    """Each has its own answer: the others are committed, also the ones behind it, and nothing else is looked up."""
    asked = [Committable(transaction(task), rows=1) for task in range(4)]
    unknown = asked[at]

    def answer(statement: str) -> Changed | Refused:
        return played.unknown if _names(statement, unknown) else Changed()

    played.script.on(COMMITTING, answer)
    played.script.on("SELECT checkpoint_id.*FROM eos_witness", seen(*asked))
    played.script.on(LISTING, [])
    played.script.on(WITNESS, [(1,)])
    outcomes = [CommitOutcome.ALREADY_COMMITTED if each is unknown else CommitOutcome.COMMITTED for each in asked]
    assert played.committer.commit(7, asked) == outcomes
    assert len(played.script.statements(WITNESS)) == 1
    sent = played.script.statements(COMMITTING)
    assert [sum(_names(statement, each) for statement in sent) for each in asked] == [1] * 4


def test_of_several_that_are_sent_in_one_piece_the_connection_is_lost(played: Played) -> None:
    """Of the others nothing was heard: each is looked up on another connection."""
    asked = [Committable(transaction(task), rows=1) for task in range(4)]
    played.script.on(COMMITTING, Changed(), Changed(), Cut())
    played.script.on("SELECT checkpoint_id.*FROM eos_witness", seen(*asked[:2]))
    played.script.on(LISTING, played.lists(asked[3].transaction))
    played.script.on(WITNESS, [(1,)])
    committed, already, later = CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED, CommitOutcome.RETRY_LATER
    assert played.committer.commit(7, asked) == [committed, committed, already, later]


@pytest.mark.parametrize("server", ["MySQL", "MariaDB"])
def test_behind_a_commit_that_waited_for_a_lock_none_waits(server: str) -> None:
    """As under FLUSH TABLES WITH READ LOCK: each would wait for 20 seconds."""
    asked = [Committable(transaction(task), rows=1) for task in range(20)]
    with SERVERS[server]() as played:
        played.script.on(COMMITTING, Changed(), Refused(1205))
        played.script.on("SELECT checkpoint_id.*FROM eos_witness", seen(asked[0]))
        played.script.on(LISTING, played.lists(*(each.transaction for each in asked[1:])))
        outcomes = played.committer.commit(7, asked)
        assert outcomes == [CommitOutcome.COMMITTED] + [CommitOutcome.RETRY_LATER] * 19
        assert len(played.script.statements(COMMITTING)) == 2


def _names(statement: str, committable: Committable) -> bool:
    """Whether a statement is about this transaction."""
    branch = committable.transaction.branch
    return branch in statement or branch.encode().hex() in statement


def test_an_error_that_says_nothing_of_the_transaction_stops_the_commit(played: Played) -> None:
    full = Refused(1021 if played.unknown.code == 1397 else "53100", "disk full")
    played.script.on(COMMITTING, full)
    with pytest.raises(SinkUnavailableError, match="disk full"):
        played.committer.commit(7, [ROWS])
    assert played.script.statements(LISTING) == []


@pytest.mark.parametrize("server", ["MySQL", "MariaDB"])
def test_what_the_server_rolled_back_is_lost_and_no_error(server: str) -> None:
    """PostgreSQL keeps what is prepared."""
    with SERVERS[server]() as played:
        for number in (1402, 1613, 1614):
            played.script.on(COMMITTING, Refused(number))
            assert played.committer.commit(7, [ROWS]) == [CommitOutcome.LOST]
        played.script.on(COMMITTING, Refused(1398))
        with pytest.raises(PrepareError):
            played.committer.commit(7, [ROWS])


def test_a_repair_under_way_holds_what_it_took_for_lost() -> None:
    """A newer epoch has prepared the rows of the same task: it holds the witness, which it has only if that is lost."""
    for name, server in SERVERS.items():
        with server() as played:
            played.script.on(COMMITTING, played.unknown)
            played.script.on(WITNESS, played.lock_wait)
            played.script.on(LISTING, [], played.lists(transaction(epoch=2)))
            played.script.on("XA START", Refused(1440))
            assert played.committer.commit(7, [ROWS]) == [CommitOutcome.LOST], name
            for other in (transaction(1, epoch=2), transaction(epoch=2, checkpoint_id=8), transaction(epoch=1)):
                played.script.on(LISTING, [], played.lists(other) if other != MINE else [])
                assert played.committer.commit(7, [ROWS]) == [CommitOutcome.RETRY_LATER], name


def test_h24_mariadb_s_word_for_a_commit_is_checked() -> None:
    """It answers OK, strikes the branch from its list, and does nothing: so the witness must be seen."""
    with SERVERS["MariaDB"]() as played:
        played.script.on("SELECT checkpoint_id.*FROM eos_witness", [])
        played.script.on(WITNESS, played.lock_wait)
        played.script.on("XA START", Refused(1440))
        assert played.committer.commit(7, [ROWS]) == [CommitOutcome.RETRY_LATER]
        assert played.script.statements("XA START"), "and it is reminded of it"


@pytest.mark.parametrize(("held", "prepared"), [("row", True), ("nothing", False), ("committed", False)])
def test_h24_a_name_is_given_back_only_to_what_mariadb_holds(held: str, prepared: bool) -> None:
    """Prepared beside nothing, or beside what is committed, the second branch would be taken for the first."""
    with SERVERS["MariaDB"]() as played:
        script, second = played.script, Changed(0, warnings=1 if held == "row" else 0)
        script.on("SELECT checkpoint_id.*FROM eos_witness", [])
        script.on(WITNESS, played.lock_wait, *([[(1,)]] if held == "committed" else [played.lock_wait]))
        script.on("INSERT IGNORE", Changed(0, warnings=1) if held == "committed" else second)
        script.on("SHOW WARNINGS", [("Warning", 1062, "Duplicate entry")])
        assert played.committer.commit(7, [ROWS]) == [CommitOutcome.RETRY_LATER]
        assert bool(script.statements("XA PREPARE")) == prepared
        assert bool(script.statements("XA ROLLBACK")) != prepared


def test_h24_branches_that_mariadb_has_forgotten_are_in_the_list() -> None:
    """Their witnesses are read uncommitted before the listing, and what is committed meanwhile does not count."""
    lost, committed, known = (transaction(task) for task in range(3))
    with SERVERS["MariaDB"]() as played:
        script = played.script
        dirty = seen(*(Committable(each, 1) for each in (lost, committed, known)))
        script.on("SELECT checkpoint_id.*FROM eos_witness", dirty, seen(Committable(committed, 1)))
        script.on(LISTING, played.lists(known))
        found = played.committer.prepared("a" * 20)
        assert {each.transaction for each in found} == {lost, known}
        order = script.order("READ UNCOMMITTED", "SELECT checkpoint_id", "XA RECOVER")
        assert order[:4] == ["READ UNCOMMITTED", "SELECT checkpoint_id", "XA RECOVER", "SELECT checkpoint_id"]
