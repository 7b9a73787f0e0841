"""Every sink and commit variant on a real server, by the tests that ship with the framework."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy

from connectors.api.contracts import Sink
from connectors.kafka.sink.layout import Layout
from connectors.kafka.sink.sink import KafkaSink
from connectors.log.keyed import Upsert
from connectors.log.place import LogPlace
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.sink import PostgresSink
from connectors.testing.compliance import SinkCompliance, UpsertCompliance
from connectors.testing.rows import Row
from connectors.testing.target import Target, leave_in_log
from integration_tests.conftest import TopicFactory
from integration_tests.harness.drain import drain
from integration_tests.services import Services
from tests.object_store import Bucket

_TABLE = "compliance"


@dataclass
class DatabaseTarget:
    """See Target."""

    url: str
    log: LogPlace | None
    keyed: bool = False

    def __post_init__(self) -> None:
        self.engine = sqlalchemy.create_engine(self.url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
        self.execute(f"CREATE TABLE {_TABLE} (n BIGINT {'PRIMARY KEY' if self.keyed else ''}, text {self.text})")

    @property
    def upsert(self) -> Upsert | None:
        """Of its sinks."""
        return Upsert(("n",), "gone") if self.keyed else None

    @property
    def text(self) -> str:
        """The type of a column for any text."""
        return "TEXT"

    def execute(self, *statements: str) -> list[tuple[object, ...]]:
        """On one connection."""
        with self.engine.connect() as connection:
            results = [connection.exec_driver_sql(each) for each in statements]
            return [tuple(row) for row in results[-1]] if results[-1].returns_rows else []

    def sink(self, name: str) -> Sink:
        """See Target."""
        raise NotImplementedError

    def rows(self) -> Counter[Row]:
        """See Target."""
        with self.engine.connect() as connection:
            found = connection.exec_driver_sql(f"SELECT n, text FROM {_TABLE}")
            return Counter((int(n), text) for n, text in found)

    def leave_foreign(self) -> Callable[[], None] | None:
        """See Target. In a log it is a file of somebody's."""
        if self.log is None:
            return self.prepare_foreign(f"somebody-{secrets.token_hex(6)}")
        return leave_in_log(self.log.open())

    def prepare_foreign(self, name: str) -> Callable[[], None]:
        """Prepare a transaction."""
        raise NotImplementedError

    def end_foreign(self, rollback: str) -> None:
        """Fails if it is not there any more."""
        self.execute(rollback)


class MySqlTarget(DatabaseTarget):
    @property
    def text(self) -> str:
        return "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

    def sink(self, name: str) -> Sink:
        return MySqlSink(name, self.url, _TABLE, self.log, self.upsert)

    def prepare_foreign(self, name: str) -> Callable[[], None]:
        insert = f"INSERT INTO {_TABLE} VALUES (0, NULL)"
        connection = self.engine.raw_connection()  # SQLAlchemy's own would roll back
        cursor = connection.cursor()
        for statement in (f"XA START '{name}'", insert, f"XA END '{name}'", f"XA PREPARE '{name}'"):
            cursor.execute(statement)
        driver = connection.driver_connection
        assert driver is not None
        connection.detach()
        driver.close()
        return partial(self.end_foreign, f"XA ROLLBACK '{name}'")


class PostgresTarget(DatabaseTarget):
    def sink(self, name: str) -> Sink:
        return PostgresSink(name, self.url, _TABLE, self.log, self.upsert)

    def prepare_foreign(self, name: str) -> Callable[[], None]:
        self.execute("BEGIN", f"INSERT INTO {_TABLE} VALUES (0, NULL)", f"PREPARE TRANSACTION '{name}'")
        return partial(self.end_foreign, f"ROLLBACK PREPARED '{name}'")


class TestMySqlTwoPhase(SinkCompliance):
    """MySQL or MariaDB by XA."""

    @pytest.fixture
    def target(self, database: str) -> Target:
        return MySqlTarget(database, None)


class TestMySqlLog(SinkCompliance):
    """MySQL or MariaDB by the write-ahead log."""

    @pytest.fixture
    def target(self, database: str, tmp_path: Path) -> Target:
        return MySqlTarget(database, LogPlace(tmp_path / "log", slots=2))


@pytest.mark.any_server
class TestMySqlLogInABucket(SinkCompliance):
    """MySQL or MariaDB by the write-ahead log, which lies in an object store."""

    late_writers = True

    @pytest.fixture
    def target(self, database: str, bucket: Bucket) -> Target:
        return MySqlTarget(database, LogPlace(bucket.address(), slots=2))


class TestMySqlUpsert(UpsertCompliance):
    """MySQL or MariaDB by merging."""

    @pytest.fixture
    def target(self, database: str, tmp_path: Path) -> Target:
        return MySqlTarget(database, LogPlace(tmp_path / "log", slots=2), keyed=True)


@pytest.mark.any_server
class TestPostgresTwoPhase(SinkCompliance):
    """PostgreSQL by PREPARE TRANSACTION."""

    @pytest.fixture
    def target(self, postgres_database: str) -> Target:
        return PostgresTarget(postgres_database, None)


@pytest.mark.any_server
class TestPostgresLog(SinkCompliance):
    """PostgreSQL by the write-ahead log."""

    @pytest.fixture
    def target(self, postgres_database: str, tmp_path: Path) -> Target:
        return PostgresTarget(postgres_database, LogPlace(tmp_path / "log", slots=2))


@pytest.mark.any_server
class TestPostgresUpsert(UpsertCompliance):
    """PostgreSQL by merging."""

    @pytest.fixture
    def target(self, postgres_database: str, tmp_path: Path) -> Target:
        return PostgresTarget(postgres_database, LogPlace(tmp_path / "log", slots=2), keyed=True)


@dataclass
class KafkaTarget:
    """See Target: messages with JSON values, as a reader of committed ones sees them."""

    brokers: str
    topic: str
    markers: str
    log: LogPlace
    keyed: bool = False

    def sink(self, name: str) -> Sink:
        """See Target."""
        sink = KafkaSink(name, self.brokers, Layout(self.topic, key=("n",)), self.log, markers=self.markers)
        return replace(sink, transaction_timeout_s=10.0)  # a killed driver leaves one open: the next start waits for it

    def rows(self) -> Counter[Row]:
        """See Target."""
        values = [record.json for record in drain(self.brokers, self.topic)]
        return Counter((each["n"], each["text"]) for each in values)

    def leave_foreign(self) -> Callable[[], None] | None:
        """See Target."""
        return leave_in_log(self.log.open())


@pytest.mark.any_server
class TestKafkaLog(SinkCompliance):
    """Kafka by transactional producers."""

    events = 12
    claims_wait = False

    @pytest.fixture
    def target(self, services: Services, topic: TopicFactory, tmp_path: Path) -> Target:
        markers = topic(8, **{"cleanup.policy": "compact"})
        return KafkaTarget(services.kafka_bootstrap, topic(3), markers, LogPlace(tmp_path / "log", slots=2))
