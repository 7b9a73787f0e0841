"""Partitioned tables of PostgreSQL: rows are in the leaves, each of which may be another kind of table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy

from connectors.api.contracts import Writer
from connectors.log.keyed import Upsert
from connectors.log.place import LogPlace
from connectors.sql.postgres.engine import Session
from connectors.sql.postgres.sink import PostgresSink
from connectors.testing.sink_driver import new_incarnation
from eos.errors import BadRowError, RowLockedError, TargetError
from integration_tests.services.postgres_native import Postgres
from twophase.ids import Scope, TransactionId, sink_key
from twophase.participants import Committer
from twophase.values import CommitOutcome

pytestmark = pytest.mark.any_server

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.int32()), ("word", pa.string())])
ORDERED = pa.schema([*SCHEMA, ("_partition", pa.int32()), ("_offset", pa.int64())])
_PARENT = "CREATE TABLE t (id BIGINT NOT NULL, day INT NOT NULL, word TEXT) PARTITION BY LIST (day)"
_LEAF = "CREATE TABLE one PARTITION OF t FOR VALUES IN (1)"
_TREE = (
    "CREATE TABLE two PARTITION OF t FOR VALUES IN (2) PARTITION BY LIST (id)",
    "CREATE TABLE below PARTITION OF two DEFAULT",
)


def execute(url: str, *statements: str) -> list[tuple[object, ...]]:
    with Session(url) as session:
        return [session.execute(each) for each in statements][-1]


@pytest.fixture
def table(postgres_database: str) -> str:
    """The database in which `t` has a leaf for day 1, and one below another level for day 2."""
    execute(postgres_database, _PARENT, _LEAF, *_TREE)
    return postgres_database


@dataclass
class SinkDriver:
    """One life of a pipeline that writes to `t`, without head and without Spark."""

    sink: PostgresSink
    incarnation: str = field(default_factory=new_incarnation)
    attempts: Iterator[int] = field(default_factory=count)
    committer: Committer = field(init=False)
    scope: Scope = field(init=False)

    def __post_init__(self) -> None:
        self.sink = self.sink.open(SCHEMA)
        self.committer = self.sink.committer("p")
        self.committer.inspect(self.incarnation, ())
        self.committer.claim(self.incarnation, 1)

        self.scope = Scope(self.incarnation, 1, 0)
        self.committer.permit(self.scope)

    def writer(self, task: int = 0) -> Writer:
        return self.sink.writer(TransactionId(self.scope, sink_key("s"), task, next(self.attempts)))


def rows(*values: tuple[int, int, str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, each, strict=True)) for each in values], SCHEMA)


def merging(url: str, folder: Path, *key: str) -> PostgresSink:
    return PostgresSink("s", url, "t", LogPlace(folder / "log"), Upsert(key))


def opened(url: str, folder: Path) -> list[Callable[[], PostgresSink]]:
    """In each variant, and at-least-once."""
    sink = PostgresSink("s", url, "t")
    return [
        partial(sink.open, SCHEMA),
        partial(replace(sink, log=LogPlace(folder / "log")).open, SCHEMA),
        partial(merging(url, folder, "id").open, ORDERED),
        partial(replace(sink, repeats=True).open, SCHEMA),
    ]


def test_rows_come_into_leaves_of_every_level(table: str) -> None:
    driver = SinkDriver(PostgresSink("s", table, "t"))
    with closing(driver.committer):
        writer = driver.writer()
        writer.write(rows((1, 1, "a"), (2, 2, "b")))
        assert driver.committer.commit(0, [writer.prepare()]) == [CommitOutcome.COMMITTED]
    assert execute(table, "SELECT id FROM one UNION ALL SELECT id FROM below") == [(1,), (2,)]


@pytest.mark.parametrize("leaf", ["one", "below"])
def test_a_leaf_that_a_crash_would_empty_is_refused_until_it_is_logged(table: str, tmp_path: Path, leaf: str) -> None:
    execute(table, f"ALTER TABLE {leaf} SET UNLOGGED")
    for start in opened(table, tmp_path):
        with pytest.raises(TargetError, match=rf"partition public\.{leaf} of public\.t .* a crash") as caught:
            start()
        assert caught.value.remedy == f'ALTER TABLE "public"."{leaf}" SET LOGGED'
    findings = {each.check: each for each in PostgresSink("s", table, "t").check(SCHEMA)}
    assert not findings["s: target"].ok
    assert leaf in findings["s: target"].detail
    execute(table, caught.value.remedy)
    PostgresSink("s", table, "t").open(SCHEMA)


def test_what_an_unlogged_parent_says_of_itself_does_not_count(postgres_database: str) -> None:
    """It holds no rows, its leaves are logged all the same, and the server leaves it so whatever ALTER TABLE says."""
    execute(postgres_database, _PARENT.replace("TABLE", "UNLOGGED TABLE"), _LEAF, "ALTER TABLE t SET LOGGED")
    sink = PostgresSink("s", postgres_database, "t")
    sink.open(SCHEMA)
    assert {each.check: each.ok for each in sink.check(SCHEMA)}["s: target"]
    execute(postgres_database, "ALTER TABLE one SET UNLOGGED")
    with pytest.raises(TargetError, match=r"partition public\.one of public\.t .* a crash"):
        sink.open(SCHEMA)


def test_a_leaf_on_another_server_is_refused(table: str, postgres: Postgres, tmp_path: Path) -> None:
    """What a foreign table takes is committed there before the transaction that it came from is decided here."""
    admin = sqlalchemy.make_url(postgres.admin_url).set(database=sqlalchemy.make_url(table).database)
    execute(
        admin.render_as_string(hide_password=False),
        "CREATE FOREIGN DATA WRAPPER elsewhere",  # without a handler: nothing is ever sent there
        "CREATE SERVER far FOREIGN DATA WRAPPER elsewhere",
        "GRANT USAGE ON FOREIGN SERVER far TO eos",
    )
    execute(table, "CREATE FOREIGN TABLE remote PARTITION OF t FOR VALUES IN (3) SERVER far")
    for start in opened(table, tmp_path):
        with pytest.raises(TargetError, match=r"partition public\.remote of public\.t .* foreign") as caught:
            start()
        assert caught.value.remedy.startswith('detach "public"."remote"')
    execute(table, "ALTER TABLE t DETACH PARTITION remote")
    PostgresSink("s", table, "t").open(SCHEMA)


def test_a_leaf_that_comes_while_rows_wait_in_a_log_is_refused_before_they_are_in_it(
    table: str, tmp_path: Path
) -> None:
    driver = SinkDriver(PostgresSink("s", table, "t", LogPlace(tmp_path / "log")))
    with closing(driver.committer):
        writer = driver.writer()
        writer.write(rows((3, 3, "c")))
        decided = [writer.prepare()]
        execute(table, "CREATE UNLOGGED TABLE late PARTITION OF t FOR VALUES IN (3)")
        with pytest.raises(TargetError, match=r"partition public\.late of public\.t"):
            driver.committer.commit(0, decided)
        execute(table, "ALTER TABLE late SET LOGGED")
        assert driver.committer.commit(0, decided) == [CommitOutcome.COMMITTED]
    assert execute(table, "SELECT id FROM late") == [(3,)]


def test_children_by_plain_inheritance_get_no_rows_and_may_be_anything(postgres_database: str) -> None:
    execute(
        postgres_database,
        "CREATE TABLE t (id BIGINT, day INT, word TEXT)",
        "CREATE UNLOGGED TABLE child (UNIQUE (id)) INHERITS (t)",
    )
    assert PostgresSink("s", postgres_database, "t").open(SCHEMA).partition_by is None


# Indexes of leaves alone, and what rows are shared out by.
_INDEXES: dict[str, tuple[tuple[str, ...], tuple[str, ...] | None]] = {
    "not unique": (("CREATE INDEX ON one (id)",), None),
    "of one leaf": (("CREATE UNIQUE INDEX ON one (id)",), ("id",)),
    "of a leaf below": (("ALTER TABLE below ADD PRIMARY KEY (id)",), ("id",)),
    "of two leaves": (("CREATE UNIQUE INDEX ON one (id)", "CREATE UNIQUE INDEX ON below (word, id)"), ("id",)),
    "with nothing in common": (("CREATE UNIQUE INDEX ON one (id)", "CREATE UNIQUE INDEX ON below (word)"), ()),
    "an expression": (("CREATE UNIQUE INDEX ON one (lower(word))",), ()),
    "of the level between": (("CREATE UNIQUE INDEX ON two (id)",), ("id",)),
    "beside the table's own": (("ALTER TABLE t ADD PRIMARY KEY (id, day)", "CREATE UNIQUE INDEX ON one (id)"), ("id",)),
    "of the table alone": (("ALTER TABLE t ADD PRIMARY KEY (id, day)",), ("id", "day")),
}


@pytest.mark.parametrize("case", _INDEXES)
def test_h15_rows_are_shared_out_by_the_indexes_of_leaves_too(table: str, case: str) -> None:
    statements, expected = _INDEXES[case]
    execute(table, *statements)
    sink = PostgresSink("s", table, "t").open(SCHEMA)
    assert (sink.partition_by, sink.rejects_duplicates) == (expected, bool(expected))
    if expected is not None:
        with pytest.raises(TargetError, match="at-least-once takes a table without one"):
            PostgresSink("s", table, "t", repeats=True).open(SCHEMA)


def test_h15_one_writer_that_gets_all_rows_says_which_key_a_leaf_has_twice(table: str) -> None:
    """Of two tasks the second would wait for the first one's lock."""
    execute(table, "CREATE UNIQUE INDEX ON one (id)", "CREATE UNIQUE INDEX ON below (word)")
    driver = SinkDriver(PostgresSink("s", table, "t"))
    assert driver.sink.partition_by == ()
    with closing(driver.committer), aborted(driver.writer()) as one, aborted(driver.writer(task=1)) as two:
        one.write_atomic(rows((1, 1, "a")))
        with pytest.raises(BadRowError, match="duplicate key"):
            one.write_atomic(rows((1, 1, "b")))
        with pytest.raises(RowLockedError):
            two.write_atomic(rows((1, 1, "b")))


@contextmanager
def aborted(writer: Writer) -> Iterator[Writer]:
    try:
        yield writer
    finally:
        writer.abort()


def test_a_key_that_only_a_leaf_has_is_none_to_merge_by(table: str, tmp_path: Path) -> None:
    execute(table, "ALTER TABLE t ADD PRIMARY KEY (id, day)", "CREATE UNIQUE INDEX own ON one (id)")
    with pytest.raises(TargetError, match="no unique index is on id and nothing else"):
        merging(table, tmp_path, "id").open(ORDERED)
    by_both = merging(table, tmp_path, "id", "day")
    with pytest.raises(TargetError, match="unique index own is on other columns"):
        by_both.open(ORDERED)
    execute(table, "DROP INDEX own")
    assert by_both.open(ORDERED).partition_by == ("id", "day")
