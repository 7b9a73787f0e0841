"""R5 on played servers: a task's transaction, and rows that the server does not take as they were sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pytest

from connectors.sql.bulk_writer import DirectBulkWriter
from connectors.sql.mysql import fit as of_mysql
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.errors import ServerError
from connectors.sql.mysql.writer import MySqlDirectWriter, MySqlWriter
from connectors.sql.postgres import fit as of_postgres
from connectors.sql.postgres.writer import PostgresDirectWriter, PostgresWriter
from connectors.sql.two_phase.writer import TwoPhaseWriter
from eos.errors import (
    BadRowError,
    IdentityError,
    PermitRevokedError,
    RowLockedError,
    SinkError,
    SinkUnavailableError,
)
from tests.played.mysql import MYSQL, mysql
from tests.played.postgres import postgres
from tests.played.script import Changed, Cut, Named, Refused, Script
from tests.played.two_phase import SINK, transaction
from twophase.values import Committable

MINE: Final = transaction()
LOADING: Final = "^LOAD DATA|^COPY"
STARTING: Final = "^XA START|^BEGIN"
PERMIT: Final = "FROM eos_permit.*FOR SHARE"
WITNESSING: Final = "INSERT INTO eos_witness"
ENDING: Final = "^XA PREPARE|^PREPARE TRANSACTION"
MARKING: Final = "GET_LOCK|'application_name', 'eos-"


@dataclass(frozen=True)
class Task:
    """A task's half of a sink on a played server."""

    script: Script
    writer: Callable[[], TwoPhaseWriter]  # type: ignore[type-arg]
    direct: Callable[[], DirectBulkWriter]  # type: ignore[type-arg]
    duplicate: Refused
    row_fault: Refused
    lock_wait: Refused


@contextmanager
def _mysql() -> Iterator[Task]:
    with mysql(MYSQL) as (url, script):
        plans = (of_mysql.ColumnPlan("n", "n", of_mysql.Form.PLAIN),)
        arguments = (SINK, url, "`t`", plans, MINE, 1234)
        row_fault = Refused(1366, "Incorrect value at row 2")
        writer, direct = partial(MySqlWriter, *arguments), partial(MySqlDirectWriter, *arguments)
        yield Task(script, writer, direct, Refused(1062), row_fault, Refused(1205))


@contextmanager
def _postgres() -> Iterator[Task]:
    with postgres() as (url, script):
        plans = (of_postgres.ColumnPlan("n", "n", of_postgres.Form.PLAIN),)
        arguments = (SINK, url, '"t"', plans, MINE, 1234)
        row_fault = Refused("22003", "out of range")
        writer, direct = partial(PostgresWriter, *arguments), partial(PostgresDirectWriter, *arguments)
        yield Task(script, writer, direct, Refused("23505"), row_fault, Refused("55P03"))


@pytest.fixture(params=[_mysql, _postgres], ids=["MySQL", "PostgreSQL"])
def task(request: pytest.FixtureRequest) -> Iterator[Task]:
    with request.param() as found:
        found.script.on(PERMIT, [(1,)])
        found.script.on(LOADING, Changed(3))
        yield found


def rows(count: int = 3) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(count), pa.int64())})


def test_r5_rows_and_witness_are_prepared_under_the_permit(task: Task) -> None:
    writer = task.writer()
    writer.write(rows())
    assert writer.prepare() == Committable(MINE, rows=3, bytes=6)
    steps = [MARKING, STARTING, PERMIT, LOADING, WITNESSING, ENDING]
    assert [each for each in task.script.order(*steps) if each in steps] == steps
    assert task.script.files == [b"0\n1\n2\n"]
    (witness,) = task.script.statements(WITNESSING)
    scope = MINE.scope
    values = f"('{scope.incarnation}', '{MINE.sink}', 7, 1, 1, 0, 11, 3, "
    assert values in witness
    assert {number for number, each in task.script.asked if "eos_" in each or "PREPARE" in each} == {1}


def test_r5_without_its_permit_a_task_writes_nothing(task: Task) -> None:
    task.script.on(PERMIT, [])
    writer = task.writer()
    with pytest.raises(PermitRevokedError):
        writer.write(rows())
    writer.abort()
    assert task.script.files == []
    assert task.script.statements(WITNESSING) == []


def test_a_task_without_rows_asks_the_server_nothing(task: Task) -> None:
    writer = task.writer()
    writer.write(rows(0))
    assert writer.prepare() == Committable(MINE, rows=0, data={"empty": "1"})
    assert task.script.connections == 0


@pytest.mark.parametrize("stored", [0, 2, 4])
def test_rows_that_the_server_leaves_out_are_refused(task: Task, stored: int) -> None:
    """A trigger that returns NULL leaves a row out, and the server says so by the count alone."""
    task.script.on(LOADING, Changed(stored))
    writer = task.writer()
    with pytest.raises(BadRowError, match=f"stored {stored} of 3 rows and gave no reason"):
        writer.write(rows())
    writer.abort()
    direct = task.direct()
    with pytest.raises(BadRowError, match="look for triggers"):
        direct.write(rows())
    direct.abort()
    assert task.script.statements(f"{ENDING}|^COMMIT") == []


def test_rows_that_the_server_refuses_are_bad_rows(task: Task) -> None:
    task.script.on(LOADING, task.row_fault)
    writer = task.writer()
    with pytest.raises(BadRowError, match=f"sink {SINK} at .*, task 0: the server refused"):
        writer.write(rows())
    writer.abort()


@pytest.mark.parametrize(("said", "error"), [("lock_wait", RowLockedError), ("lost", SinkUnavailableError)])
def test_a_lock_or_an_outage_is_no_fault_of_a_row(task: Task, said: str, error: type[Exception]) -> None:
    task.script.on(LOADING, Cut() if said == "lost" else task.lock_wait)
    writer = task.writer()
    with pytest.raises(error):
        writer.write(rows())
    writer.abort()


def test_a_bad_row_is_found_before_anything_is_prepared(task: Task) -> None:
    """The last statement is on its way while the next rows are encoded: it is waited for."""
    task.script.on(LOADING, Changed(3), task.row_fault)
    writer = task.writer()
    writer.write(rows())
    writer.write(rows())
    with pytest.raises(BadRowError):
        writer.prepare()
    writer.abort()
    task.script.on(LOADING, Changed(3), task.row_fault)
    direct = task.direct()
    direct.write(rows())
    direct.write(rows())
    with pytest.raises(BadRowError):
        direct.commit()
    direct.abort()
    assert task.script.statements(f"{WITNESSING}|{ENDING}|^COMMIT") == []


def test_a_batch_between_savepoints_is_undone_and_those_before_it_stay(task: Task) -> None:
    task.script.on(LOADING, Changed(3), task.row_fault, Changed(3))
    writer = task.writer()
    writer.write_atomic(rows())
    with pytest.raises(BadRowError):
        writer.write_atomic(rows())
    writer.write_atomic(rows())
    assert writer.prepare().rows == 6
    order = task.script.order("^SAVEPOINT", LOADING, "^ROLLBACK TO", "^RELEASE")
    kept = ["^SAVEPOINT", LOADING, "^RELEASE"]
    undone = ["^SAVEPOINT", LOADING, "^ROLLBACK TO", "^RELEASE"]  # else PostgreSQL keeps a lock for each of them
    assert order == [*kept, *undone, *kept]
    (witness,) = task.script.statements(WITNESSING)
    assert ", 0, 11, 6, " in witness


def test_a_repair_holds_the_witness_of_what_it_replaces(task: Task) -> None:
    """Then only one of the two can ever be committed."""
    lost = Committable(transaction(epoch=0), rows=3)
    writer = task.writer().in_place_of(lost)
    writer.write(rows())
    writer.prepare()
    first, second = task.script.statements(WITNESSING)
    assert "', 7, 1, 1, 0, 11, 3" in first
    assert "', 7, 0, 1, 0, 11, 3" in second
    assert task.script.order(WITNESSING, ENDING) == [WITNESSING, WITNESSING, ENDING]


def test_a_repair_of_what_is_there_after_all_is_refused(task: Task) -> None:
    task.script.on(WITNESSING, Changed(1), task.duplicate)
    writer = task.writer().in_place_of(Committable(transaction(epoch=0), rows=3))
    writer.write(rows())
    with pytest.raises(IdentityError, match="was taken for lost, and its rows stand in the table"):
        writer.prepare()
    writer.abort()
    assert task.script.statements(ENDING) == []


def test_a_prepare_without_an_answer_is_no_success(task: Task) -> None:
    task.script.on(ENDING, Cut())
    writer = task.writer()
    writer.write(rows())
    with pytest.raises(SinkUnavailableError):
        writer.prepare()
    writer.abort()


def test_at_least_once_a_task_has_the_answer_to_its_commit(task: Task) -> None:
    task.script.on("^COMMIT", Changed(), Cut())
    writer = task.direct()
    writer.write(rows())
    assert writer.commit().rows == 3
    begin = "^START TRANSACTION|^BEGIN$"
    assert task.script.order(begin, LOADING, "^COMMIT") == [begin, LOADING, "^COMMIT"]
    writer = task.direct()
    writer.write(rows())
    with pytest.raises(SinkUnavailableError):
        writer.commit()
    writer.abort()


def test_a_connection_that_is_idle_is_let_go_as_late_as_the_checkpoint_may_take(task: Task) -> None:
    writer = task.writer()
    writer.write(rows())
    writer.abort()
    settings = task.script.statements("wait_timeout|idle_in_transaction_session_timeout")
    assert any("1234" in each for each in settings)


def test_a_prepare_that_postgresql_turns_into_a_rollback_is_an_error() -> None:
    """So it answers after an error in the transaction."""
    with _postgres() as task:
        task.script.on(PERMIT, [(1,)])
        task.script.on(LOADING, Changed(3))
        task.script.on(ENDING, Named("ROLLBACK"))
        writer = task.writer()
        writer.write(rows())
        with pytest.raises(SinkError, match="rolled back instead of PREPARE"):
            writer.prepare()
        writer.abort()


@pytest.mark.parametrize(("number", "refused"), [(1265, True), (1287, False), (0, True)])
def test_mysql_s_warnings_are_refusals(number: int, refused: bool) -> None:
    """With LOCAL it stores 0 for `abc`, and leaves out a duplicate, with no more than a warning."""
    with _mysql() as task:
        task.script.on(PERMIT, [(1,)])
        task.script.on(LOADING, Changed(3, warnings=1))
        shown = [("Warning", number, "Data truncated for column 'n' at row 3")] if number else []
        task.script.on("SHOW WARNINGS", shown)
        writer = task.writer()
        if refused:
            with pytest.raises(BadRowError, match="row 3" if number else "1 warnings, which the server does not show"):
                writer.write(rows())
        else:
            writer.write(rows())
        writer.abort()


def test_a_server_that_asks_for_a_file_which_nobody_offers_gets_none() -> None:
    """It may ask so in answer to any statement, for any file of the worker's."""
    with mysql(MYSQL) as (url, script), Session(url) as session:
        script.on(LOADING, Changed(1))
        assert session.send("LOAD DATA LOCAL INFILE 'rows' INTO TABLE t", memoryview(b"1\n")) == 1
        with pytest.raises(ServerError, match="asked for a local file that this statement does not send"):
            session.execute("LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE t")
        assert script.files == [b"1\n", b""]


def test_rows_go_as_inserts_where_a_server_takes_no_local_file() -> None:
    with _mysql() as task:
        task.script.on(PERMIT, [(1,)])
        task.script.on("SELECT @@local_infile", [(0, 1 << 20)])
        task.script.on("^INSERT INTO `t`", Changed(2))
        writer = task.writer()
        with pytest.raises(BadRowError, match="stored 2 of 3 rows"):
            writer.write(rows())
        writer.abort()
        assert task.script.statements("^INSERT INTO `t`") == ["INSERT INTO `t` (`n`) VALUES ('0'),('1'),('2')"]
        assert task.script.files == []
