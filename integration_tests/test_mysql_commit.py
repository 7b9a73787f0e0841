"""The committer of the MySQL and MariaDB sink on a real server: R3, R5, R7, R8, R9 and the histories behind them."""

from __future__ import annotations

import multiprocessing
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from connectors.sql import tables
from connectors.sql.mysql import xa
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.errors import ServerError
from connectors.sql.mysql.server import MySqlServer, mysql_committer
from connectors.sql.mysql.writer import MySqlWriter
from connectors.sql.two_phase import permits
from connectors.sql.two_phase.committer import TwoPhaseCommitter
from connectors.sql.two_phase.server import listed
from eos.errors import (
    FencedError,
    IdentityError,
    PermitRevokedError,
    SinkUnavailableError,
)
from integration_tests.mysql_support import IDS, PIPELINE, Bench, bench, incarnation, numbers
from integration_tests.mysql_support import clean_up as clean_up
from twophase.ids import INCARNATION_LENGTH, Scope, TransactionId, sink_key
from twophase.participants import Prepared
from twophase.values import CommitOutcome, Committable

ROWS = 1_000


@pytest.fixture
def ids(database: str) -> Bench:
    return bench(database, "id BIGINT NOT NULL", IDS)


def write_in_child(url: str, transaction: TransactionId, answer: multiprocessing.Queue[Committable]) -> None:
    from connectors.sql.mysql.sink import MySqlSink  # a process of its own

    writer = MySqlSink("warehouse", url, "rows_in").open(IDS).writer(transaction)
    writer.write(numbers(0, ROWS))
    answer.put(writer.prepare())


def test_r5_r7_rows_prepared_by_one_process_become_visible_by_another(ids: Bench) -> None:
    scope = ids.permitted()
    context = multiprocessing.get_context("spawn")
    answer: multiprocessing.Queue[Committable] = context.Queue()
    transaction = TransactionId(scope, sink_key("warehouse"), 3, 77)
    child = context.Process(target=write_in_child, args=(ids.url, transaction, answer))
    child.start()
    committable = answer.get(timeout=60)
    child.join()

    assert (ids.count(), committable.rows, len(ids.prepared())) == (0, ROWS, 1)
    assert ids.commit(committable) == [CommitOutcome.COMMITTED]
    assert (ids.count(), ids.witnesses(), ids.prepared()) == (ROWS, 1, [])


def test_r7_a_second_commit_answers_that_the_first_one_landed(ids: Bench) -> None:
    committable = ids.prepare(ids.permitted(), 0, numbers(0, ROWS))
    assert ids.commit(committable) == [CommitOutcome.COMMITTED]
    for _ in range(2):
        again = mysql_committer("warehouse", ids.url, PIPELINE)
        assert again.commit(0, [committable]) == [CommitOutcome.ALREADY_COMMITTED]
        again.close()
    assert ids.count() == ROWS
    state = ids.committer.inspect(ids.incarnation, [committable])
    assert (state.highest_witness, state.missing, state.claim_epoch) == (0, (), 1)


def test_r8_abort_leaves_nothing_and_may_be_repeated(ids: Bench) -> None:
    scope = ids.permitted()
    for task in range(3):
        ids.prepare(scope, task, numbers(0, ROWS))
    listed = ids.prepared()
    assert len(listed) == 3
    ids.committer.abort(listed)
    ids.committer.abort(listed)
    assert (ids.count(), ids.witnesses(), ids.prepared()) == (0, 0, [])
    assert ids.prepare(ids.permitted(0, 2), 0, numbers(0, ROWS)).rows == ROWS


def test_r8_abort_of_what_is_committed_is_refused_loudly(ids: Bench) -> None:
    committable = ids.prepare(ids.permitted(), 0, numbers(0, ROWS))
    ids.commit(committable)
    with pytest.raises(IdentityError, match="committed"):
        ids.committer.abort([Prepared(committable.transaction, "")])
    assert ids.count() == ROWS


def test_h19_abort_of_a_branch_that_is_still_attached_waits_until_it_is_gone(ids: Bench) -> None:
    transaction = TransactionId(ids.permitted(), sink_key("warehouse"), 0, 1)
    session = Session(ids.url)
    xa.start(session, transaction)
    session.execute("INSERT INTO rows_in VALUES (1), (2)")
    tables.insert_witness(session, transaction, 2)
    xa.prepare(session, transaction)
    closer = threading.Timer(1.0, session.close)
    closer.start()
    ids.committer.abort([Prepared(transaction, str(transaction))])
    assert (ids.count(), ids.prepared()) == (0, [])
    closer.join()


def test_r7_a_connection_that_the_server_has_cut_is_replaced_and_the_branch_is_looked_up(ids: Bench) -> None:
    committable = ids.prepare(ids.permitted(), 0, numbers(0, ROWS))
    ids.committer.prepared(ids.incarnation)
    session = ids.committer._kept.open()
    assert isinstance(session, MySqlServer)
    (thread,) = session.execute("SELECT CONNECTION_ID()")[0]
    ids.query(f"KILL {thread}")
    outcomes = ids.committer.commit(0, [committable])
    assert outcomes == [CommitOutcome.RETRY_LATER]  # it is listed: this COMMIT never arrived
    assert ids.commit(committable) == [CommitOutcome.COMMITTED]
    assert ids.count() == ROWS


def test_r7_a_branch_rolled_back_by_hand_is_lost_and_nothing_else_is(ids: Bench) -> None:
    scope = ids.permitted()
    gone = ids.prepare(scope, 0, numbers(0, ROWS))
    kept = ids.prepare(scope, 1, numbers(0, ROWS))
    time.sleep(0.2)
    ids.query(f"XA ROLLBACK {xa.literal(gone.transaction)}")
    assert ids.commit(gone, kept) == [CommitOutcome.LOST, CommitOutcome.COMMITTED]
    assert ids.count() == ROWS
    assert ids.committer.inspect(ids.incarnation, [gone, kept]).missing == (gone.transaction,)


def test_h4_of_two_concurrent_commits_neither_takes_the_branch_for_lost(ids: Bench) -> None:
    branches = 100
    scope = ids.permitted()
    committables = [ids.prepare(scope, task, numbers(task, task + 1)) for task in range(branches)]
    time.sleep(0.3)
    ours = [mysql_committer("warehouse", ids.url, PIPELINE) for _ in range(2)]
    barrier = threading.Barrier(2)

    def race(committer: TwoPhaseCommitter) -> list[CommitOutcome]:
        outcomes: list[CommitOutcome] = []
        for committable in committables:
            barrier.wait()
            outcomes += committer.commit(0, [committable])
        return outcomes

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(race, ours)
    for pair in zip(first, second, strict=True):
        assert CommitOutcome.LOST not in pair
        assert CommitOutcome.COMMITTED in pair
    assert (ids.count(), ids.witnesses()) == (branches, branches)
    assert set(ids.commit(*committables)) == {CommitOutcome.ALREADY_COMMITTED}
    for each in ours:
        each.close()


def test_h4_a_commit_that_is_under_way_and_no_longer_listed_is_waited_for(ids: Bench) -> None:
    """The moment in which MariaDB answers XAER_NOTA, lists nothing, and shows no witness: only a locking read waits."""
    transaction = TransactionId(ids.permitted(), sink_key("warehouse"), 0, 1)
    committable = Committable(transaction, rows=0)
    with Session(ids.url) as other:
        other.execute("START TRANSACTION")
        tables.insert_witness(other, transaction, 0)
        with MySqlServer(ids.url) as server:
            assert transaction not in listed(server)  # others may use the server, too
        assert ids.committer.commit(0, [committable]) == [CommitOutcome.RETRY_LATER]
        other.execute("COMMIT")
    assert set(ids.commit(committable)) <= {CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED}
    assert (ids.witnesses(), ids.prepared()) == (1, [])


def test_h18_a_foreign_binary_id_is_reported_and_left_alone(ids: Bench) -> None:
    theirs = "X'00ff27c328',X'80fe',7"
    with Session(ids.url) as session:
        for statement in (f"XA START {theirs}", "INSERT INTO rows_in VALUES (1)", f"XA END {theirs}"):
            session.execute(statement)
        session.execute(f"XA PREPARE {theirs}")
    try:
        ids.prepare(ids.permitted(), 0, numbers(0, ROWS))
        listed = ids.committer.prepared(ids.incarnation)
        foreign = [each for each in listed if each.transaction is None]
        assert any(theirs in each.description for each in foreign)
        ids.committer.abort(listed)
        assert ids.prepared() == []
        still = ids.committer.prepared(ids.incarnation)
        assert any(theirs in each.description for each in still if each.transaction is None)
    finally:
        ids.query(f"XA ROLLBACK {theirs}")


def test_branches_of_another_incarnation_or_sink_are_left_out(ids: Bench) -> None:
    ids.prepare(ids.permitted(), 0, numbers(0, ROWS))
    assert len(ids.prepared()) == 1
    other = incarnation()
    assert [each for each in ids.committer.prepared(other) if each.transaction] == []
    neighbour = mysql_committer("another sink", ids.url, PIPELINE)
    assert [each for each in neighbour.prepared(ids.incarnation) if each.transaction] == []
    neighbour.close()


def test_r5_without_a_permit_nothing_is_written(ids: Bench) -> None:
    writer = ids.writer(ids.scope(5))
    with pytest.raises(PermitRevokedError):
        writer.write(numbers(0, ROWS))
    writer.abort()
    assert (ids.count(), ids.prepared()) == (0, [])


def test_r5_a_permit_is_given_only_to_the_owner_of_the_claim(ids: Bench) -> None:
    ids.committer.permit(ids.scope(1))
    ids.committer.permit(ids.scope(1))  # idempotent
    newer = mysql_committer("warehouse", ids.url, PIPELINE)
    newer.claim(ids.incarnation, 2)
    with pytest.raises(FencedError):
        ids.committer.permit(ids.scope(2))
    with pytest.raises(FencedError):
        ids.committer.claim(ids.incarnation, 1)
    with pytest.raises(IdentityError, match="eos reset"):
        newer.claim(incarnation(), 3)
    newer.close()
    assert ids.query("SELECT COUNT(*) FROM eos_permit")[0][0] == 0


def test_r3_a_claim_ends_open_and_prepared_branches_of_older_epochs(ids: Bench) -> None:
    scope = ids.permitted()
    ids.prepare(scope, 0, numbers(0, ROWS))
    open_writer = ids.writer(scope, 1)
    open_writer.write(numbers(0, ROWS))

    newer = mysql_committer("warehouse", ids.url, PIPELINE)
    started = time.monotonic()
    newer.claim(ids.incarnation, 2)  # the open writer is stopped as far as the database can see
    assert time.monotonic() - started < 20
    with pytest.raises(SinkUnavailableError):
        open_writer.prepare()
    open_writer.abort()
    late = ids.writer(scope, 2)
    with pytest.raises(PermitRevokedError):
        late.write(numbers(0, 1))
    late.abort()
    assert (ids.prepared(), ids.count()) == ([], 0)

    ids.epoch = 2
    newer.permit(ids.scope(0))
    assert ids.commit(ids.prepare(ids.scope(0), 0, numbers(0, ROWS))) == [CommitOutcome.COMMITTED]
    newer.close()
    assert ids.count() == ROWS


def test_r3_a_take_over_leaves_alone_what_another_incarnation_may_have_decided(ids: Bench) -> None:
    decided = ids.prepare(ids.permitted(), 0, numbers(0, ROWS))
    heir, incarnation_of_heir = mysql_committer("warehouse", ids.url, PIPELINE), incarnation()
    with pytest.raises(IdentityError, match=str(decided.transaction)):
        heir.claim(incarnation_of_heir, 1, take_over=True)
    assert [each.transaction for each in ids.prepared()] == [decided.transaction]
    assert ids.committer.inspect(ids.incarnation, ()).claim_incarnation == ids.incarnation
    assert ids.commit(decided) == [CommitOutcome.COMMITTED]

    heir.claim(incarnation_of_heir, 1, take_over=True)
    with pytest.raises(FencedError):
        ids.committer.permit(ids.scope(1))
    late = ids.writer(ids.scope(0))
    with pytest.raises(PermitRevokedError):
        late.write(numbers(0, 1))
    heir.close()
    assert ids.count() == ROWS


def test_r3_eviction_never_rolls_back_for_another_incarnation(ids: Bench) -> None:
    """What prepares between the check of a take-over and the deletion of its permit."""
    scope = ids.permitted()
    decided = ids.prepare(scope, 0, numbers(0, ROWS))
    with MySqlServer(ids.url) as session, pytest.raises(IdentityError, match="prepared"):
        permits.revoke_permits(session, "warehouse", incarnation(), [scope])
    assert ids.commit(decided) == [CommitOutcome.COMMITTED]
    assert ids.count() == ROWS


def test_r9_revoke_ends_what_was_not_accepted_and_keeps_what_was(ids: Bench) -> None:
    scope = ids.permitted(0, 1)
    again = ids.permitted(0, 2)
    ids.prepare(scope, 0, numbers(0, ROWS))
    loser = ids.prepare(again, 0, numbers(0, ROWS))
    winner = ids.prepare(again, 0, numbers(0, ROWS))
    assert ids.commit(winner) == [CommitOutcome.COMMITTED]
    ids.committer.revoke(again)
    assert ids.prepared() == []
    assert ids.count() == ROWS
    assert ids.committer.inspect(ids.incarnation, [winner, loser]).missing == (loser.transaction,)
    with pytest.raises(PermitRevokedError):
        ids.writer(scope).write(numbers(0, 1))
    ids.committer.revoke(again)


def test_r9_pruning_passes_by_what_is_prepared_beside_it(ids: Bench) -> None:
    """The next checkpoint of this sink, and sinks whose witnesses stand before and behind it: in a table as small as
    this one, too, of which a server would rather read all."""
    others = [TransactionId(Scope(digit * INCARNATION_LENGTH, 1, 0, 0), sink_key("other"), 0, 0) for digit in "0f"]
    for checkpoint_id in range(3):
        ids.commit(ids.prepare(ids.permitted(checkpoint_id), 0, numbers(0, ROWS)))
    following = ids.prepare(ids.permitted(3), 0, numbers(0, ROWS))
    with MySqlServer(ids.url) as before, MySqlServer(ids.url) as behind:
        for server, other in zip((before, behind), others, strict=True):
            server.execute(server.begin)
            tables.insert_witness(server, other, 1)
        started = time.monotonic()
        ids.committer.prune(ids.incarnation, below=3)
        assert time.monotonic() - started < 1
        assert ids.witnesses() == 0
        assert ids.commit(following) == [CommitOutcome.COMMITTED]
        assert ids.committer.inspect(ids.incarnation, [following]).highest_witness == 3

        after = ids.prepare(ids.permitted(4), 0, numbers(0, ROWS))
        started = time.monotonic()
        ids.committer.prune(ids.incarnation, below=3)
        ids.committer.prune(ids.incarnation, below=4)
        assert time.monotonic() - started < 1
        assert ids.witnesses() == 0
        assert ids.commit(after) == [CommitOutcome.COMMITTED]
    assert ids.count() == 5 * ROWS


def test_r9_one_statement_prunes_what_lies_below_a_visible_checkpoint(ids: Bench) -> None:
    for checkpoint_id in range(4):
        ids.commit(ids.prepare(ids.permitted(checkpoint_id), 0, numbers(0, ROWS)))
    following = ids.prepare(ids.permitted(4), 0, numbers(0, ROWS))
    started = time.monotonic()
    ids.committer.prune(ids.incarnation, below=3)
    assert time.monotonic() - started < 1
    assert ids.query("SELECT checkpoint_id FROM eos_witness") == [(3,)]
    assert ids.commit(following) == [CommitOutcome.COMMITTED]


def test_r9_what_one_statement_would_wait_for_is_passed_by(ids: Bench) -> None:
    """As if the server read more than the range: an open branch of another program amid what is pruned."""
    for checkpoint_id in range(3):
        committable = ids.prepare(ids.permitted(checkpoint_id), 0, numbers(0, ROWS))
        ids.commit(committable)
    amid = TransactionId(Scope(ids.incarnation, 1, 0, 99), committable.transaction.sink, 0, 0)
    with MySqlServer(ids.url) as other:
        other.execute(other.begin)
        tables.insert_witness(other, amid, 1)
        ids.committer.prune(ids.incarnation, below=2)
        assert ids.query("SELECT checkpoint_id FROM eos_witness") == [(2,)]


def test_a_writer_without_rows_prepares_nothing_and_counts_as_committed(ids: Bench) -> None:
    empty = ids.prepare(ids.permitted(), 0)
    assert (empty.rows, dict(empty.data), ids.prepared()) == (0, {"empty": "1"}, [])
    assert ids.commit(empty) == [CommitOutcome.COMMITTED]
    assert ids.committer.inspect(ids.incarnation, [empty]).missing == ()


def test_a_writer_whose_connection_is_cut_never_goes_on_with_another(ids: Bench) -> None:
    writer = ids.writer(ids.permitted())
    writer.write(numbers(0, ROWS))
    assert isinstance(writer, MySqlWriter)
    assert writer._session is not None
    (thread,) = writer._session.execute("SELECT CONNECTION_ID()")[0]
    ids.query(f"KILL {thread}")
    writer.write(numbers(ROWS, 2 * ROWS))  # handed over; that it failed shows at the next call
    with pytest.raises(SinkUnavailableError):
        writer.write(numbers(2 * ROWS, 3 * ROWS))
    writer.abort()
    assert (ids.count(), ids.prepared()) == (0, [])


def test_inspect_changes_nothing_but_its_own_tables(database: str) -> None:
    committer = mysql_committer("warehouse", database, PIPELINE)
    state = committer.inspect(incarnation(), ())
    assert (state.claim_incarnation, state.claim_epoch, state.highest_witness) == (None, 0, -1)
    committer.close()
    with Session(database) as session:
        assert {row[0] for row in session.execute("SHOW TABLES")} == {
            "eos_claim",
            "eos_permit",
            "eos_slot",
            "eos_witness",
        }
        for table in ("eos_claim", "eos_permit", "eos_slot", "eos_witness"):
            assert session.execute(f"SELECT COUNT(*) FROM {table}") == [(0,)]
        with pytest.raises(ServerError):
            session.execute("SELECT nothing FROM nowhere")


def test_a_transaction_that_a_server_opens_after_each_commit_is_not_opened_to_us(database: str) -> None:
    """In it XA COMMIT is refused, and what is not committed by a word of its own is gone with the connection."""
    made = bench(f"{database}?init_command=SET completion_type=CHAIN", "id BIGINT NOT NULL", IDS)
    for number in range(2):
        scope = made.permitted(number)
        committable = made.prepare(scope, 0, numbers(number * ROWS, (number + 1) * ROWS))
        assert made.commit(committable) == [CommitOutcome.COMMITTED]
        made.committer.revoke(scope)
    assert made.count() == 2 * ROWS
