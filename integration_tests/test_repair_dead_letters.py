"""R7 beside dead letters, on real servers: what a checkpoint has lost comes back, with each dead letter once."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy
from confluent_kafka import Producer

from integration_tests.counting import assert_counted, count_words
from integration_tests.harness.letters import letters_of, rows_of
from integration_tests.harness.oracle import PostgresTable
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, TABLE, Pipeline
from integration_tests.harness.workload import Row
from integration_tests.services import Services
from integration_tests.services.postgres_native import Postgres

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_BAD = (b"{", b"[")
"""Records of one checkpoint that do not decode: one in each partition."""

_REFUSED = 100  # one row of so many


@pytest.fixture
def letters(pipeline: Pipeline, postgres_database: str) -> PostgresTable:
    """A table of PostgreSQL, for the dead letters of `pipeline`, whose rows are in another database."""
    return letters_of(pipeline, postgres_database)


def _produce(pipeline: Pipeline, services: Services, *, bad: bool = True) -> None:
    """About a checkpoint's records, the bad ones in front."""
    if bad:
        producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
        for partition, value in enumerate(_BAD):
            producer.produce(pipeline.workload.topic, value, partition=partition)
        assert producer.flush(60) == 0
        assert len(_BAD) == PARTITIONS
    pipeline.workload.produce(CHECKPOINT_RECORDS)


def _refused(pipeline: Pipeline) -> Counter[Row]:
    return Counter(row for row in pipeline.workload.expected if row[0] % _REFUSED == 3)


def _killed_with_checkpoint_1_decided(pipeline: Pipeline, services: Services) -> None:
    """It has bad records, and the others have none."""
    for number in range(4):
        _produce(pipeline, services, bad=number == 1)
    process = pipeline.start(arm=["after-decide@1"])
    process.await_point("after-decide@1")
    process.kill()


def _assert_exact(pipeline: Pipeline, table: PostgresTable | None, letters: PostgresTable, bad: Counter[bytes]) -> None:
    refused = _refused(pipeline)
    assert refused.total() == pipeline.workload.expected.total() // _REFUSED
    assert (table or pipeline.table).rows() == pipeline.workload.expected - refused
    assert rows_of(letters) == {"": bad, "warehouse": refused}
    assert pipeline.prepared() == []
    assert letters.prepared(pipeline.head.incarnation) == []


@pytest.mark.timeout(900)
def test_rows_that_a_table_refused_are_left_out_again(
    pipeline: Pipeline, letters: PostgresTable, services: Services
) -> None:
    """One of the sink's two transactions is rolled back by hand; the dead letters are committed, and only counted."""
    few = "ADD CONSTRAINT few CHECK (mod(id, 100) <> 3)"
    pipeline.table.execute(f"ALTER TABLE `{TABLE}` ADD PRIMARY KEY (id), {few}")
    pipeline.spec["spark"]["conf"] = {"spark.sql.adaptive.coalescePartitions.enabled": "false"}  # few rows, two tasks
    _killed_with_checkpoint_1_decided(pipeline, services)
    of_sink = pipeline.decided().committables["warehouse"]
    assert len(of_sink) == 2
    assert sum(each.refused for each in of_sink) == 5
    most = max(of_sink, key=lambda each: each.refused)
    (branch,) = [each for each in pipeline.prepared() if str(most.transaction).partition("/")[2] in _names(each)]
    pipeline.table.execute(f"XA ROLLBACK {branch}")
    pipeline.start().fail("lost: checkpoint 1 is completed", str(most.transaction), "eos repair SPEC")
    shown, told = pipeline.table.count(), rows_of(letters)
    assert shown == CHECKPOINT_RECORDS - 5 + sum(each.rows for each in of_sink if each != most)
    assert told[""] == Counter(_BAD)

    pipeline.table.execute(f"ALTER TABLE `{TABLE}` DROP CONSTRAINT few")
    said = f"sink warehouse refuses 0 rows in task {most.transaction.task}, and refused {most.refused} then"
    pipeline.command("repair", "--yes").fail(said, "nothing was written. Change the table back")
    assert (pipeline.table.count(), pipeline.prepared(), rows_of(letters)) == (shown, [], told)
    pipeline.table.execute(f"ALTER TABLE `{TABLE}` {few}")
    for stem in ("prepared@1", "before-repair@1", "after-repair@1"):
        killed = pipeline.command("repair", "--yes", arm=[stem])
        killed.await_point(stem)
        killed.kill()
        assert (pipeline.table.count(), len(pipeline.prepared()), rows_of(letters)) == (shown, 1, told)
    pipeline.command("repair", "--yes").succeed()
    pipeline.catch_up()
    _assert_exact(pipeline, None, letters, Counter(_BAD))


def _names(branch: str) -> str:
    """Of a literal of XA RECOVER, which is in hex where the server is MySQL."""
    part = branch.split(",")[1]
    return bytes.fromhex(part[2:-1]).decode() if part[:1] in {"X", "x"} else part


@pytest.mark.timeout(900)
@pytest.mark.parametrize("refuses", [False, True])
def test_dead_letters_whose_transaction_was_rolled_back(
    pipeline: Pipeline, letters: PostgresTable, services: Services, refuses: bool
) -> None:
    """Records that do not decode are found again. Which rows a table refused is not, where it has the others."""
    if refuses:
        pipeline.table.execute(f"ALTER TABLE `{TABLE}` ADD CONSTRAINT few CHECK (mod(id, 100) <> 3)")
    _killed_with_checkpoint_1_decided(pipeline, services)
    left = letters.prepared(pipeline.head.incarnation)
    assert len(left) == (3 if refuses else 2)
    letters.execute(f"ROLLBACK PREPARED '{left[0]}'")
    pipeline.start().fail("lost: checkpoint 1 is completed", "dead_letter", "eos repair SPEC")
    shown, told = pipeline.table.rows(), rows_of(letters)
    assert shown.total() == 2 * CHECKPOINT_RECORDS - len(_BAD) - (10 if refuses else 0)
    if refuses:
        epoch = pipeline.head.epoch
        pipeline.command("repair", "--yes").fail("sink warehouse refused", "nothing tells which rows it refused")
        assert (pipeline.head.epoch, pipeline.table.rows(), rows_of(letters)) == (epoch, shown, told)
        return
    assert told[""].total() == 1
    killed = pipeline.command("repair", "--yes", arm=["after-repair@1"])
    killed.await_point("after-repair@1")
    killed.kill()
    assert (pipeline.table.rows(), rows_of(letters)) == (shown, told)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=4 * CHECKPOINT_RECORDS)
    assert rows_of(letters) == {"": Counter(_BAD)}
    assert letters.prepared(pipeline.head.incarnation) == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("commit", ["two-phase", "write-ahead-log"])
def test_a_database_that_holds_both_is_set_back(
    pipeline: Pipeline, postgres_database: str, postgres: Postgres, services: Services, commit: str
) -> None:
    """A copy of before two checkpoints is put back. With a log the slots write the dead letters of refused rows."""
    letters, table = letters_of(pipeline, postgres_database, commit), PostgresTable(postgres_database, TABLE)
    table.create()
    table.execute(f"ALTER TABLE {TABLE} ADD PRIMARY KEY (id), ADD CONSTRAINT few CHECK (mod(id, 100) <> 3)")
    (sink,) = pipeline.spec["sinks"]
    sink.update(connector="postgresql", url=postgres_database, commit=commit)
    _produce(pipeline, services)
    pipeline.catch_up()
    _assert_exact(pipeline, table, letters, Counter(_BAD))
    before, name = pipeline.head.committed, postgres_database.rpartition("/")[2]
    copy = f"eos_{secrets.token_hex(5)}"
    _on(postgres, f"CREATE DATABASE {copy} TEMPLATE {name} OWNER eos")
    for _ in range(2):
        _produce(pipeline, services)
    pipeline.catch_up()
    _assert_exact(pipeline, table, letters, Counter(_BAD * 3))
    assert pipeline.head.committed >= before + 2
    _on(postgres, f"DROP DATABASE {name} WITH (FORCE)", f"ALTER DATABASE {copy} RENAME TO {name}")
    pipeline.start().fail("went back in time", "eos repair")
    assert letters.count() == 5 + len(_BAD)
    stem = f"after-repair@{pipeline.head.completed}"  # of the first of them
    killed = pipeline.command("repair", "--yes", arm=[stem])
    killed.await_point(stem)
    killed.kill()
    assert letters.count() == 5 + len(_BAD)
    pipeline.command("repair", "--yes").succeed()
    _assert_exact(pipeline, table, letters, Counter(_BAD * 3))
    _produce(pipeline, services)
    pipeline.catch_up()
    _assert_exact(pipeline, table, letters, Counter(_BAD * 4))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("commit", ["two-phase", "write-ahead-log"])
def test_tasks_that_wrote_nothing_are_set_back(
    pipeline: Pipeline, postgres_database: str, postgres: Postgres, commit: str
) -> None:
    """One task of dead letters had none in a checkpoint; of the next one each record was refused before it was sent."""
    letters, table = letters_of(pipeline, postgres_database, commit), PostgresTable(postgres_database, TABLE)
    table.create()
    (sink,) = pipeline.spec["sinks"]
    sink.update(connector="postgresql", url=postgres_database, commit=commit)
    pipeline.workload.produce(50)
    pipeline.catch_up()
    with _set_back(postgres, postgres_database):
        pipeline.workload.produce_bad("{")
        pipeline.workload.produce(50)
        pipeline.workload.produce_words("too long" * 10)
        pipeline.catch_up()
        some = pipeline.decided()
        assert sorted(each.rows for each in some.committables["dead_letter"]) == [0, 1, 1]
        assert sorted(each.rows for each in some.committables["warehouse"]) == [25, 25]
        pipeline.workload.produce_words("too long" * 10, "too long" * 10)
        pipeline.catch_up()
        none = pipeline.decided()
        assert [(each.rows, each.refused) for each in none.committables["warehouse"]] == [(0, 1), (0, 1)]
        refused = Counter(row for row in pipeline.workload.expected if row[1] == "too long" * 10)
        assert rows_of(letters) == {"": Counter([b"{"]), "warehouse": refused}
    assert not letters.count()
    pipeline.start().fail("went back in time", "eos repair")
    pipeline.command("repair", "--yes").succeed()
    assert pipeline.head.committed == none.checkpoint_id
    assert rows_of(letters) == {"": Counter([b"{"]), "warehouse": refused}
    assert table.rows() == pipeline.workload.expected - refused
    unknown = letters.execute("SELECT COUNT(*) FROM letters WHERE error LIKE '%%does not know why%%'")
    assert unknown == [(2 if commit == "write-ahead-log" else 0,)]
    pipeline.workload.produce(50)
    pipeline.catch_up()
    assert table.rows() == pipeline.workload.expected - refused
    assert letters.count() == refused.total() + 1 == 4
    assert letters.prepared(pipeline.head.incarnation) == []


@pytest.mark.timeout(900)
def test_a_table_is_set_back_and_its_dead_letters_are_elsewhere(
    pipeline: Pipeline, postgres_database: str, postgres: Postgres
) -> None:
    """It refuses the same rows again, by keys of checkpoints before: each is there before the next one is written."""
    other = f"eos_{secrets.token_hex(5)}"
    _on(postgres, f"CREATE DATABASE {other} OWNER eos")
    letters = letters_of(pipeline, f"{postgres_database.rpartition('/')[0]}/{other}")
    table = PostgresTable(postgres_database, TABLE)
    table.create("PRIMARY KEY")
    (sink,) = pipeline.spec["sinks"]
    sink.update(connector="postgresql", url=postgres_database)
    pipeline.spec["transforms"][0]["sql"] = "SELECT id, word, payload, _topic, _partition, _offset FROM incoming"
    pipeline.workload.produce(100)
    pipeline.catch_up()
    with _set_back(postgres, postgres_database):
        for _ in range(2):
            pipeline.workload.produce_bad("{")
            pipeline.workload.produce(100)
            pipeline.workload.repeat(150)
            pipeline.catch_up()
        pipeline.workload.produce(100)
        pipeline.catch_up()
        assert letters.count() == 2 + 2 * 150
        assert table.rows() == pipeline.workload.expected
    assert table.count() == 100
    told = sorted(letters.execute('SELECT checkpoint_id, partition, "offset", sink FROM letters'), key=str)
    pipeline.start().fail("went back in time", "eos repair")
    stem = f"after-repair@{pipeline.head.completed}"  # of the first of them
    killed = pipeline.command("repair", "--yes", arm=[stem])
    killed.await_point(stem)
    killed.kill()
    pipeline.command("repair", "--yes").succeed()
    pipeline.workload.produce(100)
    pipeline.catch_up()
    assert table.rows() == pipeline.workload.expected
    assert sorted(letters.execute('SELECT checkpoint_id, partition, "offset", sink FROM letters'), key=str) == told


@contextmanager
def _set_back(postgres: Postgres, url: str) -> Iterator[None]:
    """After the block the database is as it was before."""
    name, copy = url.rpartition("/")[2], f"eos_{secrets.token_hex(5)}"
    _on(postgres, f"CREATE DATABASE {copy} TEMPLATE {name} OWNER eos")
    yield
    _on(postgres, f"DROP DATABASE {name} WITH (FORCE)", f"ALTER DATABASE {copy} RENAME TO {name}")


def _on(postgres: Postgres, *statements: str) -> None:
    engine = sqlalchemy.create_engine(postgres.admin_url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for each in statements:
            connection.exec_driver_sql(each)


@pytest.mark.timeout(900)
def test_rows_that_depend_on_state_and_were_refused(pipeline: Pipeline, letters: PostgresTable) -> None:
    """The rows are made again of the state as it was before; one of each checkpoint is refused."""
    count_words(pipeline)
    pipeline.table.execute(f"ALTER TABLE `{TABLE}` ADD CONSTRAINT no_beta CHECK (word <> 'beta')")
    pipeline.workload.produce(4 * CHECKPOINT_RECORDS)
    process = pipeline.start(arm=["after-decide@1"])
    process.await_point("after-decide@1")
    process.kill()
    for branch in pipeline.prepared():
        pipeline.table.execute(f"XA ROLLBACK {branch}")
    pipeline.start().fail("lost: checkpoint 1 is completed", "eos repair SPEC")
    pipeline.table.execute(f"ALTER TABLE `{TABLE}` DROP CONSTRAINT no_beta")
    pipeline.table.execute(f"ALTER TABLE `{TABLE}` ADD CONSTRAINT no_beta CHECK (word <> 'gamma' OR id < 500)")
    pipeline.command("repair", "--yes").fail("sink warehouse refuses", "nothing was written. Change the table back")
    assert (pipeline.table.count(), pipeline.prepared(), letters.count()) == (9, [], 2)
    pipeline.table.execute(f"ALTER TABLE `{TABLE}` DROP CONSTRAINT no_beta")
    pipeline.table.execute(f"ALTER TABLE `{TABLE}` ADD CONSTRAINT no_beta CHECK (word <> 'beta')")
    pipeline.command("repair", "--yes").succeed()
    assert (pipeline.table.count(), pipeline.prepared(), letters.count()) == (18, [], 2)
    pipeline.catch_up()
    told = rows_of(letters)
    assert set(told) == {"warehouse"}
    assert {word for _, word, _ in told["warehouse"]} == {"beta"}
    assert told["warehouse"].total() == len(told["warehouse"]) == 4
    for row in told["warehouse"]:
        values = ", ".join(f"'{each}'" for each in row)
        pipeline.table.execute(f"ALTER TABLE `{TABLE}` DROP CONSTRAINT IF EXISTS no_beta")
        pipeline.table.execute(f"INSERT INTO `{TABLE}` (id, word, payload) VALUES ({values})")
    assert_counted(pipeline, checkpoints=4)
