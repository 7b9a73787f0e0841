"""The services themselves: they answer, are durable, and come back after a kill."""

from __future__ import annotations

import secrets

import pytest
import sqlalchemy
from confluent_kafka import Consumer, Producer

from integration_tests.conftest import TopicFactory
from integration_tests.services import Services


def _rows(url: str, statement: str) -> list[tuple[object, ...]]:
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.begin() as connection:
        result = connection.execute(sqlalchemy.text(statement))
        return [tuple(row) for row in result] if result.returns_rows else []


def test_every_server_tells_its_version(services: Services) -> None:
    assert services.kafka.name.endswith("Kafka")
    assert services.database.name in {"MySQL", "MariaDB"}
    assert services.database.version[0].isdigit()


def test_commits_are_durable_and_local_files_are_allowed(services: Services) -> None:
    settings = {str(name): value for name, value in _rows(services.database_url, "SHOW GLOBAL VARIABLES")}
    assert settings["innodb_flush_log_at_trx_commit"] == "1"
    assert settings["sync_binlog"] == "1"
    assert settings["local_infile"] == "ON"
    # MariaDB has no such setting.
    assert settings.get("xa_detach_on_prepare", "ON") == "ON"


def test_a_pipelines_user_may_list_prepared_transactions(services: Services) -> None:
    form = "FORMAT='SQL'" if services.database.name == "MariaDB" else "CONVERT XID"
    _rows(services.database_url, f"XA RECOVER {form}")


def test_a_killed_database_keeps_what_was_committed_and_prepared(killable: Services, database: str) -> None:
    _rows(database, "CREATE TABLE t (a INT)")
    _rows(database, "INSERT INTO t VALUES (1), (2)")
    engine = sqlalchemy.create_engine(database, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    branch = f"'{database[-10:]}'"
    with engine.connect() as connection:
        for statement in (f"XA START {branch}", "INSERT INTO t VALUES (3)", f"XA END {branch}", f"XA PREPARE {branch}"):
            connection.exec_driver_sql(statement)
        killable.kill_database()
        connection.invalidate()
    killable.start_database()
    assert _rows(database, "SELECT a FROM t ORDER BY a") == [(1,), (2,)]
    with engine.connect() as connection:
        connection.exec_driver_sql(f"XA COMMIT {branch}")
    assert _rows(database, "SELECT a FROM t ORDER BY a") == [(1,), (2,), (3,)]


@pytest.mark.only_on("MySQL", "another connection may commit a branch while the preparing one is open")
def test_a_prepared_branch_is_detached(services: Services, database: str) -> None:
    _rows(database, "CREATE TABLE t (a INT)")
    engine = sqlalchemy.create_engine(database, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    branch = f"'{database[-10:]}'"
    with engine.connect() as preparing, engine.connect() as committing:
        for statement in (f"XA START {branch}", "INSERT INTO t VALUES (1)", f"XA END {branch}", f"XA PREPARE {branch}"):
            preparing.exec_driver_sql(statement)
        committing.exec_driver_sql(f"XA COMMIT {branch}")
    assert _rows(database, "SELECT a FROM t") == [(1,)]


def test_a_killed_broker_keeps_a_committed_transaction(killable: Services, topic: TopicFactory) -> None:
    name = topic(partitions=2)
    producer = Producer({"bootstrap.servers": killable.kafka_bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    for n in range(10):
        producer.produce(name, str(n).encode(), partition=n % 2)
    producer.commit_transaction(30)

    # Read once before the kill: see `Control.kill_kafka`.
    assert _values(killable, name, 10) == list(range(10))
    killable.kill_kafka()
    killable.start_kafka()
    assert _values(killable, name, 10) == list(range(10))


def _values(services: Services, topic: str, count: int) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": services.kafka_bootstrap,
            "group.id": secrets.token_hex(5),
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    values: list[int] = []
    while len(values) < count:
        messages = consumer.consume(count, timeout=30)
        assert messages, f"only {len(values)} of {count} records came back"
        assert all(message.error() is None for message in messages)
        values += [int(message.value() or b"") for message in messages]
    consumer.close()
    return sorted(values)
