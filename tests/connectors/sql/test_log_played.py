"""R2, R3 and R5 to R7 on played servers: a log that is applied, its slots, and connections that do not let go."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from connectors.log.committer import LogCommitter
from connectors.log.keyed import Upsert
from connectors.log.keyed_rows import KeyedForm, log_writer
from connectors.log.merge import Merge
from connectors.log.place import LogPlace
from connectors.owner import Owner
from connectors.sql.log import ledger
from connectors.sql.log.ledger import LogTarget, SqlLedger
from connectors.sql.log.refusing import DeadLettersTable
from connectors.sql.log.store import Store
from connectors.sql.mysql import fit as of_mysql
from connectors.sql.mysql.encode import Stored as MySqlForm
from connectors.sql.mysql.store import MySqlStore
from connectors.sql.postgres import fit as of_postgres
from connectors.sql.postgres.encode import Stored as PostgresForm
from connectors.sql.postgres.store import PostgresStore
from eos.errors import BadRowError, ConnectorError, FencedError, IdentityError, SinkUnavailableError, TargetError
from tests.played.mysql import MYSQL, mysql
from tests.played.postgres import postgres
from tests.played.script import Changed, Cut, Refused, Script
from tests.played.two_phase import OURS, PIPELINE, SINK, THEIRS
from twophase.ids import Scope, TransactionId, sink_key
from twophase.participants import Prepared
from twophase.values import CommitOutcome, Committable

CLAIM: Final = "FROM eos_claim WHERE.*FOR SHARE"
SLOT: Final = "SELECT checkpoint_id FROM eos_slot.*FOR UPDATE"
SLOTS: Final = "SELECT slot, checkpoint_id FROM eos_slot"
MOVING: Final = "UPDATE eos_slot"
WITNESSING: Final = "INSERT INTO eos_witness"
SHOWN: Final = "SELECT checkpoint_id, epoch, attempt, task, task_attempt FROM eos_witness"
LOADING: Final = "^LOAD DATA|^COPY"
BEGINNING: Final = "^START TRANSACTION|^BEGIN"
MARKING: Final = "GET_LOCK|'application_name', 'eos-"
ENDING: Final = "IS_USED_LOCK|pg_terminate_backend"


@dataclass
class World:
    """A table `t` of columns k and v on a played server, and a pipeline that applies its log there."""

    script: Script
    connect: partial[MySqlStore] | partial[PostgresStore]
    form: KeyedForm
    lock_wait: Refused
    place: LogPlace
    slots: int = 1
    upsert: Upsert | None = None
    attempts: count[int] = field(default_factory=lambda: count(1))

    def committer(self, idle_s: float = 30.0) -> LogCommitter:
        """Of an incarnation that has the claim."""
        target = LogTarget(SINK, "t", "here", self.connect, self.slots, idle_s)
        made = LogCommitter(SINK, SqlLedger(target, PIPELINE), self.place.open())
        made.inspect(OURS, ())
        return made

    def ledger(self) -> SqlLedger:
        return SqlLedger(LogTarget(SINK, "t", "here", self.connect, self.slots), PIPELINE)

    def prepared(self, *rows: tuple[int, int, bool], task: int = 0) -> Committable:
        """A task's rows: key, value, whether the key goes."""
        transaction = TransactionId(Scope(OURS, 1, 7), sink_key(SINK), task, next(self.attempts))
        writer = log_writer(self.place, self.form, self.upsert, transaction)
        numbers = pa.array(range(len(rows)), pa.int64())
        columns = {
            "k": pa.array([key for key, _, _ in rows], pa.int64()),
            "v": pa.array([value for _, value, _ in rows], pa.int64()),
            "_offset": numbers,
            "_partition": pa.array([0] * len(rows), pa.int32()),
            "gone": pa.array([gone for _, _, gone in rows]),
        }
        names = ["k", "v"] if self.upsert is None else list(columns)
        writer.write(pa.record_batch(columns).select(names))
        return writer.prepare()


def shown(*witnesses: Committable) -> list[tuple[int, ...]]:
    """What a plain read of the witnesses shows."""
    found = [each.transaction for each in witnesses]
    return [(t.scope.checkpoint_id, t.scope.epoch, t.scope.attempt, t.task, t.task_attempt) for t in found]


@contextmanager
def _mysql(folder: Path) -> Iterator[World]:
    plans = tuple(of_mysql.ColumnPlan(name, name, of_mysql.Form.PLAIN) for name in "kv")
    with mysql(MYSQL) as (url, script):
        script.on("FROM information_schema.TABLES WHERE", [("played", "t", "InnoDB")])
        script.on("SELECT table_name, table_comment", [])
        kind = ("bigint", "bigint", "NO", None, "", None, 19, 0, 0, None)
        script.on("FROM information_schema.COLUMNS", [("k", *kind), ("v", *kind)])
        script.on("FROM information_schema.STATISTICS", [("PRIMARY", "k", None)])
        yield World(script, partial(MySqlStore, url), MySqlForm(plans), Refused(1205), LogPlace(folder / "log"))


@contextmanager
def _postgres(folder: Path) -> Iterator[World]:
    plans = tuple(of_postgres.ColumnPlan(name, name, of_postgres.Form.PLAIN) for name in "kv")
    with postgres() as (url, script):
        script.on("FROM pg_class c JOIN pg_namespace", [(1, "public", "t", "r", "p")])
        kind: tuple[Any, ...] = ("int8", "bigint", False, False, False, False, -1, [])
        script.on("FROM pg_attribute a JOIN", [("k", *kind), ("v", *kind)])
        script.on("JOIN pg_index", [("t_pkey", ["k"], True, True)])
        yield World(
            script, partial(PostgresStore, url), PostgresForm(plans), Refused("55P03"), LogPlace(folder / "log")
        )


SERVERS: Final = {"MySQL": _mysql, "PostgreSQL": _postgres}


@pytest.fixture(params=SERVERS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with SERVERS[request.param](tmp_path) as found:
        found.script.on("FROM eos_claim WHERE", [(OURS, 1)])
        found.script.on(SLOT, [(6,)])
        found.script.on(LOADING, Changed(2))
        found.script.on("IS_USED_LOCK", lambda statement: [(1, 77, *[None] * (statement.count("IS_USED_LOCK") - 1))])
        found.script.on("pg_terminate_backend", [(True,)])
        yield found


def test_a_share_is_one_transaction_under_the_claim_and_its_slot(world: World) -> None:
    """H28: the claim row is the first of all locks."""
    share = world.prepared((1, 10, False), (2, 20, False))
    committer = world.committer()
    assert committer.commit(7, [share]) == [CommitOutcome.COMMITTED]
    steps = [BEGINNING, CLAIM, SLOT, MOVING, WITNESSING, LOADING, "^COMMIT"]
    order = world.script.order(*steps)
    assert order[order.index(CLAIM) - 1 :] == steps
    assert world.script.files == [b"1\t10\n2\t20\n"]
    assert "checkpoint_id = 7 WHERE" in world.script.statements(MOVING)[0]
    committer.close()


@pytest.mark.parametrize("owner", [[(OURS, 2)], [(THEIRS, 1)], []])
def test_h28_nothing_is_applied_under_another_claim(world: World, owner: list[tuple[str, int]]) -> None:
    share = world.prepared((1, 10, False), (2, 20, False))
    committer = world.committer()
    committer._epoch = 1
    world.script.on("FROM eos_claim WHERE", owner)
    with pytest.raises(FencedError):
        committer.commit(7, [share])
    assert world.script.statements(f"{MOVING}|{LOADING}|{WITNESSING}") == []
    committer.close()


def test_a_slot_that_has_moved_applies_nothing_again(world: World) -> None:
    share, other = world.prepared((1, 10, False)), world.prepared((2, 20, False))
    world.script.on(SLOT, [(7,)])
    world.script.on("SELECT 1 FROM eos_witness", [(1,)])
    world.script.on(SHOWN, shown(share))
    committer = world.committer()
    assert committer.commit(7, [share, other]) == [CommitOutcome.ALREADY_COMMITTED, CommitOutcome.LOST]
    world.script.on("SELECT 1 FROM eos_witness", [])
    world.script.on(SHOWN, [])
    assert committer.commit(7, [share]) == [CommitOutcome.LOST], "H33: of the newest checkpoint nothing is pruned"
    world.script.on(SLOT, [(8,)])
    assert committer.commit(7, [share]) == [CommitOutcome.ALREADY_COMMITTED]
    assert world.script.statements(f"{MOVING}|{LOADING}|{WITNESSING}") == []
    committer.close()


@pytest.mark.parametrize("found", [[(5,)], []])
def test_a_slot_that_is_behind_applies_nothing(world: World, found: list[tuple[int]]) -> None:
    share = world.prepared((1, 10, False))
    world.script.on(SLOT, found)
    committer = world.committer()
    with pytest.raises(IdentityError, match="is asked to apply checkpoint 7"):
        committer.commit(7, [share])
    assert world.script.statements(f"{MOVING}|{LOADING}") == []
    committer.close()


@pytest.mark.parametrize("stored", [1, 3])
def test_rows_that_the_server_leaves_out_undo_the_share(world: World, stored: int) -> None:
    share = world.prepared((1, 10, False), (2, 20, False))
    world.script.on(LOADING, Changed(stored))
    committer = world.committer()
    with pytest.raises(BadRowError, match=f"stored {stored} of 2 rows"):
        committer.commit(7, [share])
    assert world.script.order(LOADING, "^COMMIT", "^ROLLBACK")[-2:] == [LOADING, "^ROLLBACK"]
    committer.close()


def test_a_share_whose_commit_is_not_answered_is_looked_up_by_its_slot(world: World) -> None:
    share = world.prepared((1, 10, False), (2, 20, False))
    committer = world.committer()
    world.script.on("^COMMIT", Cut(), Changed())
    with pytest.raises(SinkUnavailableError):
        committer.commit(7, [share])
    world.script.on(SLOT, [(7,)])
    world.script.on(SHOWN, shown(share))
    assert committer.commit(7, [share]) == [CommitOutcome.ALREADY_COMMITTED]
    assert len(world.script.files) == 1
    committer.close()


def test_slots_are_shared_out_under_the_claim_and_no_other_stays(world: World) -> None:
    world.slots = 2
    committer = world.committer()
    world.script.on(SLOT, [(6,)], [])
    committer.permit(Scope(OURS, 1, 7))
    claim = CLAIM.replace("SHARE", "UPDATE")
    order = world.script.order(claim, SLOT, "INSERT INTO eos_slot", "DELETE FROM eos_slot", "^COMMIT")
    assert order[-6:] == [claim, SLOT, SLOT, "INSERT INTO eos_slot", "DELETE FROM eos_slot", "^COMMIT"]
    assert world.script.statements("INSERT INTO eos_slot")[0].endswith(", 1, 6)")
    assert world.script.statements("DELETE FROM eos_slot")[0].endswith("slot >= 2")
    committer.close()


@pytest.mark.parametrize("found", [5, 7])
def test_a_slot_that_is_elsewhere_stops_before_anything_is_decided(world: World, found: int) -> None:
    committer = world.committer()
    world.script.on(SLOT, [(found,)])
    with pytest.raises(IdentityError, match=f"slot 0 stands at checkpoint {found}, and everything up to 6"):
        committer.permit(Scope(OURS, 1, 7))
    committer.close()


def test_a_driver_that_lost_the_claim_shares_out_and_raises_nothing(world: World) -> None:
    ledger = world.ledger()
    world.script.on("FROM eos_claim WHERE", [(OURS, 2)])
    with pytest.raises(FencedError):
        ledger.share_out(Scope(OURS, 1, 7))
    with pytest.raises(FencedError):
        ledger.fast_forward(Owner(OURS, 1), 9, counted=6)
    assert world.script.statements("(UPDATE|INTO|DELETE FROM) eos_slot") == []
    ledger.close()


def test_segments_are_given_up_while_nobody_can_apply_them(world: World) -> None:
    """Of what is applied meanwhile none is deleted."""
    first, second = world.prepared((1, 10, False)), world.prepared((2, 20, False))
    both = [first.transaction, second.transaction]
    deleted: list[Sequence[TransactionId]] = []
    world.script.on(SLOTS, [(0, 6), (1, 6)])
    world.script.on(SHOWN, shown(first), [])
    ledger = world.ledger()
    assert ledger.give_up(OURS, both, deleted.append) == first.transaction
    assert deleted == []
    assert ledger.give_up(OURS, both, deleted.append) is None
    assert deleted == [both]
    assert world.script.order(SLOT, SHOWN)[:3] == [SLOT, SLOT, SHOWN]
    ledger.close()


def test_a_log_is_refused_where_two_phase_commit_may_have_left_something(world: World) -> None:
    world.script.on("FROM eos_permit WHERE pipeline", [(1,)])
    with pytest.raises(IdentityError, match="was written to by two-phase commit"):
        world.committer()


def test_connections_are_marked_before_they_hold_anything(world: World) -> None:
    share = world.prepared((1, 10, False), (2, 20, False))
    committer = world.committer()
    committer.commit(7, [share])
    control, slot = ([each for number, each in world.script.asked if number == at] for at in (1, 2))
    for connection in (control, slot):
        (mark,) = [
            at for at, each in enumerate(connection) if "GET_LOCK" in each or "'application_name', 'eos-" in each
        ]
        first = next(at for at, each in enumerate(connection) if "eos_" in each)
        assert mark < first
    committer.close()


@pytest.mark.parametrize("starting", [True, False])
def test_a_start_ends_the_applier_that_does_not_let_go(
    world: World, monkeypatch: pytest.MonkeyPatch, starting: bool
) -> None:
    """A driver that has the claim does not: two that end one another would both come to nothing."""
    monkeypatch.setattr(ledger, "FROZEN_S", 0.01)
    share = world.prepared((1, 10, False), (2, 20, False))
    world.script.on(SLOT, world.lock_wait)
    committer = world.committer()
    if not starting:
        world.script.on(SLOTS, [(0, 6)])
        committer.claim(OURS, 1, begins=6)
    world.script.asked.clear()
    for _ in range(2):
        with pytest.raises(ConnectorError):
            committer.commit(7, [share])
        time.sleep(0.02)
    ended = world.script.statements(ENDING)
    of_slot = [each for each in ended if each.count("IS_USED_LOCK") == 4 or "application_name = '" in each]
    assert bool(of_slot) == starting
    assert (len(ended) > len(of_slot)) == starting, "and a claim under way"
    world.script.on(SLOT, [(6,)])
    assert committer.commit(7, [share]) == [CommitOutcome.COMMITTED]
    committer.close()


def test_a_connection_is_replaced_after_an_error_and_asked_after_a_pause(world: World) -> None:
    first, second = world.prepared((1, 10, False), (2, 20, False)), world.prepared((1, 10, False), (2, 20, False))
    committer = world.committer(idle_s=0.0)
    world.script.on(WITNESSING, world.lock_wait, Changed(1))
    with pytest.raises(ConnectorError):
        committer.commit(7, [first])
    connections = world.script.connections
    committer.commit(7, [first])
    assert world.script.connections == connections + 1, "in whatever state that one was"
    committer.commit(7, [second])
    assert world.script.connections == connections + 1
    committer.close()


@dataclass
class OpenMerge:
    """A connection with an open merge into the table."""

    store: Store
    form: KeyedForm

    def put(self, *rows: tuple[int, int | None, bool]) -> None:
        columns = [[str(k) for k, _, _ in rows], [None if v is None else str(v) for _, v, _ in rows]]
        schema = pa.schema([*self.form.schema, pa.field("__gone", pa.bool_())])
        arrays = [*(pa.array(each, pa.string()) for each in columns), pa.array([gone for _, _, gone in rows])]
        self.store.merge("t", Merge(("k",)), [pa.record_batch(arrays, schema=schema)])


@pytest.fixture
def merge(world: World) -> Iterator[OpenMerge]:
    world.script.on("WITH merged AS", [(2,)])
    world.script.on("SELECT count.* JOIN pg_temp", [(0,)])
    world.script.on(LOADING, lambda statement: Changed(1 if "v" not in statement.partition("(")[2] else 2))
    with world.connect() as store:
        yield OpenMerge(store, world.form)


ROWS: Final = ((1, 10, False), (2, 20, False))


def test_rows_are_merged_and_keys_go(world: World, merge: OpenMerge) -> None:
    merge.put((3, None, True), *ROWS)
    assert world.script.files == [b"3\n", b"1\t10\n2\t20\n"]
    put = "ON DUPLICATE KEY UPDATE|ON CONFLICT"
    assert world.script.order("^DELETE", put) == ["^DELETE", put]
    (deleting,) = world.script.statements("^DELETE")
    assert "t.`k` = s.`k`" in deleting or 't."k" = s."k"' in deleting
    (putting,) = world.script.statements(put)
    assert "`v` = VALUES(`v`)" in putting or 'ON CONFLICT ("k") DO UPDATE SET "v" = excluded."v"' in putting


@pytest.mark.parametrize("what", ["put", "deleted"])
def test_rows_that_are_not_merged_are_noticed(world: World, merge: OpenMerge, what: str) -> None:
    """By PostgreSQL's counts, and by MySQL's warnings."""
    world.script.on("WITH merged AS", [(1 if what == "put" else 2,)])
    world.script.on("SELECT count.* JOIN pg_temp", [(1 if what == "deleted" else 0,)])
    world.script.on("^INSERT INTO `" if what == "put" else "^DELETE t", Changed(1, warnings=1))
    world.script.on("SHOW WARNINGS", [("Warning", 1265, "Data truncated")])
    with pytest.raises(BadRowError, match=r"merged \d of \d rows and gave no reason|has altered a row: Data truncated"):
        merge.put((3, None, True), *ROWS)


def test_an_index_that_is_new_stops_a_merge(tmp_path: Path) -> None:
    """ON DUPLICATE KEY names no index: it would take the row of another key for one of ours."""
    with _mysql(tmp_path) as world, world.connect() as store:
        world.script.on("FROM information_schema.STATISTICS", [("PRIMARY", "k", None), ("other", "v", None)])
        with pytest.raises(TargetError, match="unique index other is on other columns"):
            OpenMerge(store, world.form).put(*ROWS)
        held, looked = "SELECT NULL FROM `played`.`t` LIMIT 0", "information_schema.STATISTICS"
        assert world.script.order(held, looked) == [looked, held, looked], "no DDL may come after the look"
        assert world.script.files == []


RIGHTS: Final = [("INSERT",), ("DELETE",), ("TRIGGER",)]


@pytest.mark.parametrize(
    ("rights", "triggers", "foreign", "verb"),
    [
        (RIGHTS, [], [], "REPLACE"),
        (RIGHTS[:2], [], [], ""),
        (RIGHTS, [(1,)], [], ""),
        (RIGHTS, [], [(1,)], ""),
    ],
)
def test_mysql_replaces_rows_only_where_nobody_could_tell(
    tmp_path: Path, rights: list[tuple[str]], triggers: list[tuple[int]], foreign: list[tuple[int]], verb: str
) -> None:
    with _mysql(tmp_path) as world, world.connect() as store:
        world.script.on("CURRENT_USER", [("u@127.0.0.1",)])
        world.script.on("information_schema.USER_PRIVILEGES", rights)
        world.script.on("information_schema.TRIGGERS", triggers)
        world.script.on("information_schema.TABLE_CONSTRAINTS", foreign)
        world.script.on(LOADING, Changed(2))
        OpenMerge(store, world.form).put(*ROWS)
        (loading,) = world.script.statements(LOADING)
        assert loading.partition("'rows' ")[2].partition(" INTO")[0].strip() == verb
        checks = ["foreign_key_checks = 0", LOADING, "foreign_key_checks = 1"]
        assert world.script.order(*checks) == (checks if verb else [LOADING])


@pytest.mark.parametrize("said", ["lock", "lost"])
def test_a_lock_or_an_outage_makes_no_dead_letter(world: World, said: str) -> None:
    """Rows that a table refuses become dead letters beside it, and no others."""
    share = world.prepared((1, 10, False), (2, 20, False))
    opened: list[str] = []

    def letters() -> DeadLettersTable:
        opened.append("letters")
        return DeadLettersTable("t", world.form, ("k", "v"))

    target = LogTarget(SINK, "t", "here", world.connect, 1, letters=letters, most_letters=100)
    committer = LogCommitter(SINK, SqlLedger(target, PIPELINE), world.place.open())
    committer.inspect(OURS, ())
    world.script.on(LOADING, world.lock_wait if said == "lock" else Cut())
    with pytest.raises(ConnectorError) as caught:
        committer.commit(7, [share])
    assert not isinstance(caught.value, BadRowError)
    assert (opened, len(world.script.statements(LOADING))) == ([], 1)
    world.script.on(LOADING, Changed(2))
    assert committer.commit(7, [share]) == [CommitOutcome.COMMITTED]
    committer.close()


def test_what_is_prepared_in_a_log_is_listed_by_its_names(world: World) -> None:
    share = world.prepared((1, 10, False))
    committer = world.committer()
    assert [each.transaction for each in committer.prepared(OURS)] == [share.transaction]
    world.script.on(SLOTS, [(0, 6)])
    committer.abort([Prepared(share.transaction, "share", share)])
    assert committer.prepared(OURS) == []
    committer.close()
