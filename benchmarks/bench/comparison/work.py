"""What one run is about, and how a system is started on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.engine import URL, make_url

TABLE = "compared"
RECORDS_AT_ONCE = 500_000
"""Of a checkpoint where all records are there at the start: what this project moves in 2 s, Flink's interval."""


@dataclass(frozen=True, slots=True)
class Work:
    """From a topic into the table TABLE of a database of its own."""

    bootstrap: str
    topic: str
    database: str  # SQLAlchemy's form of its URL
    folder: Path
    rows: int
    live: bool  # records come while it runs; otherwise all are there at the start, and none comes any more
    registry: str = ""  # the URL of the registry that has the records' schemas

    @property
    def log(self) -> Path:
        """What the system prints."""
        return self.folder / "log"

    @property
    def url(self) -> URL:
        """Of the database, in its parts."""
        return make_url(self.database)


@dataclass(frozen=True, slots=True)
class Launch:
    """A system that is ready to be started."""

    command: Sequence[str]
    first_read: Callable[[], float | None]  # when it read its first record, by the clock; asked after the run
    environment: Mapping[str, str] = field(default_factory=dict)
    ends: bool = False  # by itself, when all is written
    fatal: bytes = b""  # printed by one that has failed and lives on
    clean: Callable[[], object] = lambda: None  # what it leaves in the server


@dataclass(frozen=True, slots=True)
class Warm:
    """How this project is measured warm."""

    commit: str
    mode: str


@dataclass(frozen=True, slots=True)
class System:
    """One that is compared."""

    name: str
    label: str  # in tables and charts
    guarantee: str
    prepare: Callable[[Work], Launch]  # may build it, the first time; nothing of it is timed
    keyed: bool = True  # the table has a primary key; otherwise an ordinary index, as at-least-once needs it
    streams: bool = True  # it can wait for records; the raw limit cannot
    warm: Warm | None = None


def table_statement(*, keyed: bool) -> str:
    """Makes the table."""
    key = "PRIMARY KEY (id)" if keyed else "INDEX (id)"
    columns = "id BIGINT NOT NULL, user VARCHAR(64), amount DOUBLE, ts DATETIME(6)"
    return f"CREATE TABLE {TABLE} ({columns}, {key}) ENGINE=InnoDB"


def planned_at(checkpoint: Path) -> float | None:
    """When a query of Spark's wrote down its first plan: just before it reads the first record."""
    plan = next(checkpoint.rglob("offsets/0"), None)
    return None if plan is None else plan.stat().st_mtime
