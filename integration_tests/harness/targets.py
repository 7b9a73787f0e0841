"""Every kind of sink and commit variant as a test sees it: its entry in a spec, its rows, and what is left of it."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from integration_tests.harness.drain import drained_rows
from integration_tests.harness.oracle import PostgresTable, SinkTable
from integration_tests.harness.pipeline_process import PipelineProcess
from integration_tests.harness.rotation import rotated
from integration_tests.harness.workload import Row
from twophase.ids import sink_key

KEYS: Final = 300  # of a keyed sink; of one parity each, and so of one partition
STEPS: Final = {
    "rows": "SELECT id, word, payload FROM incoming",
    "changes": f"SELECT id % {KEYS} AS id, word, payload, id % 7 = 0 AS gone, _partition, _offset FROM incoming",
}
"""What a sink takes its rows from: all of them, or changes of few keys."""

POINTS: Final = ("writing", "prepared", "before-decide", "after-decide", "between-commits", "after-commits", "closed")
"""Where any pipeline can be killed."""

LOG_POINTS: Final = (*POINTS[:4], "applying", *POINTS[4:])
"""And one with a log."""

_IN_TASK: Final = frozenset({"writing", "prepared"})
_OF_EACH_SINK: Final = _IN_TASK | {"applying", "between-commits"}
_UNDECIDED: Final = frozenset({"writing", "prepared", "before-decide", "after-decide"})  # or nothing is committed yet


def points_of(variant: str) -> tuple[str, ...]:
    """Return the points at which a sink can be killed. `variant`: its `commit`, or its name in TARGETS."""
    return POINTS if variant.endswith("two-phase") else LOG_POINTS


def stems(point: str, number: int, sinks: Iterable[str]) -> list[str]:
    """Return the fault points of a checkpoint at which each of these sinks, by their names in a spec, is at `point`."""
    if point in _OF_EACH_SINK:
        return [f"{point}@{number}@{sink_key(sink)}" for sink in sinks]
    return [f"{point}@{number}"]


def visible(point: str, number: int) -> tuple[int, int]:
    """Return how many checkpoints are visible in a sink, at least and at most, while a pipeline stands at `point`."""
    if point in _UNDECIDED:
        return number, number
    return (number, number + 1) if point in _OF_EACH_SINK else (number + 1, number + 1)


def await_all(process: PipelineProcess, point: str, number: int, groups: Iterable[Iterable[str]]) -> None:
    """Wait until each sink is at `point`, whose stems are armed.

    `groups`: the sinks that take the same rows. One task serves a group, one sink after another. It is released from
    each stop but the last, and then has brought every sink of the group to the point, and none of them past it.
    """
    waiting = [stems(point, number, group) for group in groups]
    while any(waiting):
        process.await_any(stem for group in waiting for stem in group)
        for group in waiting:
            for stem in [each for each in group if process.faults.stopped(each) is not None]:
                group.remove(stem)
                if group and point in _IN_TASK:
                    process.release(stem)


class Target(Protocol):
    """One sink of a pipeline under test."""

    entry: dict[str, Any]  # in the spec
    commit: str

    def rows(self) -> Counter[Row]:
        """What everybody sees there now."""

    def left(self, incarnation: str) -> list[str]:
        """What this life of a pipeline has left prepared in the sink itself."""

    def clean_up(self, incarnation: str) -> None:
        """After a test that failed: end what would keep its locks."""


def expected(target: Target, produced: Counter[Row]) -> Counter[Row]:
    """What is there in the end: all rows, or what is left when they are merged in their order."""
    return newest(produced) if target.commit == "upsert" else produced


def newest(produced: Counter[Row]) -> Counter[Row]:
    """What is left when the changes of STEPS are merged in their order."""
    table: dict[int, Row] = {}
    for number, word, payload in sorted(produced):
        if number % 7 == 0:
            table.pop(number % KEYS, None)
        else:
            table[number % KEYS] = (number % KEYS, word, payload)
    return Counter(table.values())


def _entry(name: str, connector: str, commit: str, **rest: object) -> dict[str, Any]:
    keyed = {"key": ["id"], "deleted": "gone", "from": "changes"} if commit == "upsert" else {"from": "rows"}
    return {"name": name, "connector": connector, "commit": commit, **keyed, **rest}


class DatabaseTarget:
    """See Target: a table of MySQL, MariaDB or PostgreSQL."""

    def __init__(self, connector: str, commit: str, table: SinkTable | PostgresTable) -> None:
        self.commit = commit
        self.table = table
        self.entry = _entry(f"{connector}-{commit}", connector, commit, url=table.url, table=table.name)
        key = "PRIMARY KEY" if commit == "upsert" else ""
        table.execute(f"CREATE TABLE {table.name} (id BIGINT NOT NULL {key}, word VARCHAR(40), payload VARCHAR(80))")

    def rows(self) -> Counter[Row]:
        """See Target."""
        return self.table.rows()

    def left(self, incarnation: str) -> list[str]:
        """See Target."""
        return self.table.prepared(incarnation)

    def clean_up(self, incarnation: str) -> None:
        """See Target."""
        self.table.roll_back(incarnation)


class SqliteTarget:
    """See Target: a table in a file."""

    def __init__(self, commit: str, file: Path) -> None:
        self.commit = commit
        self.file = file
        self.entry = _entry(f"sqlite-{commit}", "sqlite", commit, path=str(file), table="records")
        with closing(sqlite3.connect(file)) as database:
            key = "PRIMARY KEY" if commit == "upsert" else ""
            database.execute(f"CREATE TABLE records (id INTEGER {key}, word TEXT, payload TEXT)")

    def rows(self) -> Counter[Row]:
        """See Target."""
        with closing(sqlite3.connect(self.file)) as database:
            return Counter(database.execute("SELECT id, word, payload FROM records").fetchall())

    def left(self, incarnation: str) -> list[str]:
        """See Target: nothing can be prepared there."""
        del incarnation
        return []

    def clean_up(self, incarnation: str) -> None:
        """See Target."""


class KafkaTarget:
    """See Target: a topic, as a reader of committed messages sees it."""

    commit = "write-ahead-log"

    def __init__(self, brokers: str, topic: str) -> None:
        self.brokers = brokers
        self.topic = topic
        self.entry = _entry("kafka", "kafka", self.commit, bootstrap_servers=brokers, topic=topic, key=["id"])

    def rows(self) -> Counter[Row]:
        """See Target."""
        return drained_rows(self.brokers, self.topic)

    def left(self, incarnation: str) -> list[str]:
        """See Target: an open transaction ends with the next start."""
        del incarnation
        return []

    def clean_up(self, incarnation: str) -> None:
        """See Target."""


Make = Callable[[pytest.FixtureRequest], Target]


def _mysql(commit: str) -> Make:
    return lambda request: DatabaseTarget(
        "mysql", commit, SinkTable(request.getfixturevalue("database"), _table(commit))
    )


def _postgres(commit: str) -> Make:
    return lambda request: DatabaseTarget(
        "postgresql", commit, PostgresTable(request.getfixturevalue("postgres_database"), _table(commit))
    )


def _sqlite(commit: str) -> Make:
    return lambda request: SqliteTarget(commit, request.getfixturevalue("tmp_path") / f"{_table(commit)}.db")


def _table(commit: str) -> str:
    """Return a name that differs between the variants, which may share a database."""
    return f"records_{commit.replace('-', '_')}"


def _kafka(request: pytest.FixtureRequest) -> Target:
    brokers = request.getfixturevalue("services").kafka_bootstrap
    return KafkaTarget(brokers, request.getfixturevalue("topic")(3))


TARGETS: Final[Mapping[str, Make]] = {
    "mysql two-phase": _mysql("two-phase"),
    "mysql write-ahead-log": _mysql("write-ahead-log"),
    "mysql upsert": _mysql("upsert"),
    "postgresql two-phase": _postgres("two-phase"),
    "postgresql write-ahead-log": _postgres("write-ahead-log"),
    "postgresql upsert": _postgres("upsert"),
    "sqlite write-ahead-log": _sqlite("write-ahead-log"),
    "sqlite upsert": _sqlite("upsert"),
    "kafka write-ahead-log": _kafka,
}
"""By name of sink and variant."""

ALL: Final = "all sinks"
"""The case of the kill matrix that is one pipeline with every sink."""

FOLDER: Final = "in a folder"
BUCKET: Final = "in a bucket"
PLACES: Final = (FOLDER, BUCKET)
"""Places of a pipeline's location."""

EACH: Final = 1
"""Points of a sink alone in a run. There are more sinks than points."""


def points_of_run(seed: int | None, services: str = "native") -> dict[str, Sequence[str]]:
    """Return the points of each case of a run. A case is a sink's name in TARGETS, or ALL. No seed: every point.

    In containers, ALL has a third of the points: they are there for another database server, and slow.
    """
    own = {name: points_of(name) for name in TARGETS}
    if seed is None:
        return {**own, ALL: LOG_POINTS}
    together = LOG_POINTS[seed % 3 :: 3] if services == "docker" else LOG_POINTS
    return {**rotated(own, EACH, seed), ALL: together}


def places_of_run(seed: int | None) -> dict[str, Sequence[str]]:
    """Return the places of each case of a run: one that the seed chooses, or both without a seed."""
    if seed is None:
        return dict.fromkeys((*TARGETS, ALL), PLACES)
    return {name: [random.Random(f"{seed} {name}").choice(PLACES)] for name in (*TARGETS, ALL)}


def case_id(name: str, place: str) -> str:
    """Return the id of a case of the kill matrix."""
    return name if place == FOLDER else f"{name} {place}"
