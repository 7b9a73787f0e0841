"""Where a case writes to: a table or a topic of its own, its entry among a spec's sinks, and what has arrived there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import sqlalchemy

from benchmarks.bench import topic
from integration_tests import databases, topics
from integration_tests.services import Services
from integration_tests.services.minio_native import Minio
from integration_tests.services.postgres_native import Postgres
from tests.object_store import Bucket
from twophase.head import HeadStore
from twophase.object_head import ObjectHead

_COLUMNS = "(id BIGINT {key}, {user} VARCHAR(64), amount {double}, ts {timestamp})"
_MYSQL = partial(_COLUMNS.format, user="user", double="DOUBLE", timestamp="DATETIME(6)")
_POSTGRES = partial(_COLUMNS.format, user='"user"', double="DOUBLE PRECISION", timestamp="TIMESTAMPTZ")
_SQLITE = partial(_COLUMNS.format, user="user", double="DOUBLE", timestamp="TEXT")
_UPSERT = "upsert"
_PREFIX = "eos/bench"


@dataclass(frozen=True, slots=True)
class Location:
    """A pipeline's location in an object store."""

    bucket: Bucket

    @property
    def checkpoint(self) -> Mapping[str, object]:
        """Its keys of `checkpoint` in a spec."""
        address = self.bucket.address(_PREFIX)
        return {"location": str(address), "location_options": dict(address.options), "scratch": "./scratch"}

    @property
    def head(self) -> HeadStore:
        """The head that the pipeline keeps there."""
        return ObjectHead(self.bucket.address(_PREFIX))


@dataclass(slots=True)
class Place(AbstractContextManager["Place"]):
    """What a run has to itself: its name, a folder, and what must be dropped at its end."""

    services: Services
    name: str  # of its topic, its databases and the topic that it writes
    folder: Path
    partitions: int = topic.PARTITIONS  # of its topic
    _at_end: ExitStack = field(default_factory=ExitStack)
    _mysql: str = ""

    def __enter__(self) -> Place:
        bootstrap = self.services.kafka_bootstrap
        topic.create(bootstrap, self.name, self.partitions)
        self._at_end.callback(topics.delete, bootstrap, [self.name])
        return self

    def __exit__(self, *_: object) -> None:
        self._at_end.close()

    def at_end(self, call: Callable[[], object]) -> None:
        """Have this done when the run is over."""
        self._at_end.callback(call)

    def mysql(self) -> str:
        """The URL of its database on the server under test."""
        if not self._mysql:
            databases.create(self.services, self.name)
            self.at_end(partial(databases.drop, self.services, self.name))
            url = sqlalchemy.make_url(self.services.database_url).set(database=self.name)
            self._mysql = url.render_as_string(hide_password=False)
        return self._mysql

    def postgres(self) -> str:
        """The URL of its database on PostgreSQL, which is started where it does not run."""
        server = Postgres()
        server.up()
        execute(f"{server.url}postgres", f"CREATE DATABASE {self.name}")
        # By an administrator: only one may end the server's own work on it (autovacuum).
        self.at_end(partial(execute, server.admin_url, f"DROP DATABASE {self.name} WITH (FORCE)"))
        return f"{server.url}{self.name}"

    def bucket(self) -> Location:
        """A bucket on MinIO, which is started where it does not run."""
        server = Minio()
        server.up()
        return Location(Bucket(server.port))

    def sqlite(self) -> str:
        """The path of its file."""
        return str(self.folder / "bench.db")


@dataclass(frozen=True, slots=True)
class Target:
    """What a case writes to, made and empty."""

    entry: Mapping[str, object]  # of `sinks`
    arrived: Callable[[], tuple[int, int]]  # rows, and distinct ids among them
    logins: Callable[[], int] | None = None  # to the database so far, those of this question not among them


def mysql(place: Place, commit: str) -> Target:
    """A table of the server under test."""
    url = place.mysql()
    execute(url, f"CREATE TABLE bench {_MYSQL(key=_key(commit))} ENGINE=InnoDB")
    asking = sqlalchemy.create_engine(url, poolclass=sqlalchemy.StaticPool)
    return replace(
        _table(url, {"connector": "mysql", "url": url}, commit),
        logins=partial(number, asking, "SHOW GLOBAL STATUS LIKE 'Connections'"),
    )


def postgresql(place: Place, commit: str) -> Target:
    """A table of a server of this machine."""
    url = place.postgres()
    execute(url, f"CREATE TABLE bench {_POSTGRES(key=_key(commit))}")
    asking = sqlalchemy.create_engine(url, poolclass=sqlalchemy.StaticPool, isolation_level="AUTOCOMMIT")
    return replace(
        _table(url, {"connector": "postgresql", "url": url}, commit),
        logins=partial(number, asking, "SELECT sessions FROM pg_stat_database WHERE datname = current_database()"),
    )


def sqlite(place: Place, commit: str) -> Target:
    """A table in a file."""
    path = place.sqlite()
    execute(f"sqlite:///{path}", f"CREATE TABLE bench {_SQLITE(key=_key(commit))}")
    return _table(f"sqlite:///{path}", {"connector": "sqlite", "path": path}, commit)


def kafka(place: Place, form: str, *, waiting: int = 0) -> Target:
    """A topic with as many partitions as the one that is read. `waiting`: checkpoints that may wait for it."""
    bootstrap, name = place.services.kafka_bootstrap, f"{place.name}_out"
    topic.create(bootstrap, name)
    place.at_end(partial(topics.delete, bootstrap, [name]))
    entry: dict[str, object] = {"connector": "kafka", "bootstrap_servers": bootstrap, "topic": name, "format": form}
    entry |= {"max_backlog": {"checkpoints": waiting}} if waiting else {}
    return Target(entry, partial(topic.count, bootstrap, name))


def execute(url: str, statement: str) -> None:
    """Run one statement by itself."""
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(statement))


def number(engine: sqlalchemy.Engine, statement: str) -> int:
    """Return the last value of a statement's only row."""
    with engine.connect() as connection:
        return int(connection.exec_driver_sql(statement).one()[-1])


def count(url: str, table: str) -> tuple[int, int]:
    """Rows, and distinct ids among them."""
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        rows, ids = connection.execute(sqlalchemy.text(f"SELECT COUNT(*), COUNT(DISTINCT id) FROM {table}")).one()
    return rows, ids


def _key(commit: str) -> str:
    return "PRIMARY KEY" if commit == _UPSERT else ""


def _table(url: str, entry: dict[str, object], commit: str) -> Target:
    key = {"key": ["id"]} if commit == _UPSERT else {}
    return Target({**entry, "table": "bench", "commit": commit, **key}, partial(count, url, "bench"))
