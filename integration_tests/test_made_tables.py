"""`create: if-missing` and `evolve: add-columns` on real servers: what is made takes every value unaltered, whatever
its names are, and rows that are there or on their way stay what they were."""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy

from connectors import dead_letters
from connectors.api.contracts import Sink
from connectors.log.keyed import Upsert
from connectors.log.place import LogPlace
from connectors.sql import tables
from connectors.sql.dead_letters import read_dead_letters
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.engine import Session
from connectors.sql.postgres.sink import PostgresSink
from connectors.sql.slots import LOG_TABLES
from connectors.sql.sqlite.sink import SqliteSink
from connectors.testing.sink_driver import new_incarnation
from eos.errors import SinkUnavailableError, TargetError
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import CommitOutcome

NAMES = ("back`tick", "quo'te", 'double"quote', "with space", "per%cent %s %(x)s %%", "ünï中", "select", "-- x", ":x ?")

_NOW = dt.datetime(2026, 2, 28, 23, 59, 59, 123456)
VALUES: dict[str, tuple[pa.DataType, list[object]]] = {
    "yes": (pa.bool_(), [True, False]),
    "tiny": (pa.int8(), [-128, 127]),
    "small": (pa.int16(), [-(2**15), 2**15 - 1]),
    "middle": (pa.int32(), [-(2**31), 2**31 - 1]),
    "big": (pa.int64(), [-(2**63), 2**63 - 1]),
    "single": (pa.float32(), [1.2345678806304932, -3.4028234663852886e38]),
    "double": (pa.float64(), [0.1, 1.7976931348623157e308]),
    "price": (pa.decimal128(12, 4), [Decimal("12345678.0001"), Decimal("-0.5000")]),
    "exact": (pa.decimal128(38, 10), [Decimal("1234567890123456789012345678.0123456789"), Decimal("0E-10")]),
    "text": (pa.string(), ["żółć \U0001f600\t\n\\'\"%s", " a "]),
    "bytes": (pa.binary(), [bytes(range(256)), b""]),
    "day": (pa.date32(), [dt.date(1900, 1, 1), dt.date(9999, 12, 31)]),
    "local": (pa.timestamp("us"), [_NOW, dt.datetime(1969, 7, 20, 20, 17, 40, 1)]),
    "moment": (pa.timestamp("us", "UTC"), [_NOW.replace(tzinfo=dt.UTC), dt.datetime(2039, 1, 1, tzinfo=dt.UTC)]),
    "hour": (pa.time64("us"), [dt.time(23, 59, 59, 999999), dt.time(0)]),
    "nested": (pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())])), [[{"a": 1, "b": "\x00ü"}], []]),
}
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), *((name, kind) for name, (kind, _) in VALUES.items())])
ROWS = pa.record_batch(
    [pa.array([1, 2, 3]), *(pa.array([*values, None], kind) for kind, values in VALUES.values())], schema=SCHEMA
)
METADATA = pa.schema([("_partition", pa.int32()), ("_offset", pa.int64())])


PLACES = [
    "mysql",
    "mysql log",
    pytest.param("postgres", marks=pytest.mark.any_server),
    pytest.param("postgres log", marks=pytest.mark.any_server),
    pytest.param("sqlite log", marks=pytest.mark.any_server),
]
on_a_log = pytest.mark.parametrize("place", [PLACES[1], *PLACES[3:]], indirect=True)
on_a_log_of_a_server = pytest.mark.parametrize("place", [PLACES[1], PLACES[3]], indirect=True)


@dataclass
class Place:
    """A database, a sink into it, and an eye on it of its own."""

    make: Callable[..., Sink]  # name, table, further arguments
    engine: sqlalchemy.Engine
    folder: Path
    log: bool = True
    incarnation: str = field(default_factory=new_incarnation)
    checkpoints: int = 0

    def sink(self, table: str = "made", **facts: Any) -> Sink:
        """Not opened."""
        return self.make("s", table, log=LogPlace(self.folder / "log") if self.log else None, create=True, **facts)

    def through(self, sink: Sink, *batches: pa.RecordBatch) -> None:
        """One checkpoint of an opened sink, a task for each batch."""
        self.prepared(sink, *batches)()

    def prepared(self, sink: Sink, *batches: pa.RecordBatch) -> Callable[[], None]:
        """Likewise, up to the decision; returns what commits it."""
        committer = sink.committer("p")
        committer.inspect(self.incarnation, ())
        committer.claim(self.incarnation, 1)
        scope = Scope(self.incarnation, 1, self.checkpoints)
        committer.permit(scope)
        written = []
        for task, batch in enumerate(batches):
            writer = sink.writer(TransactionId(scope, sink_key("s"), task, task))
            writer.write(batch.select(list(sink.columns)))
            written.append(writer.prepare())
        self.checkpoints += 1

        def commit() -> None:
            while CommitOutcome.RETRY_LATER in committer.commit(scope.checkpoint_id, written):
                pass
            committer.revoke(scope)
            committer.close()

        return commit

    def rows(self, table: str = "made", order: str = "id") -> list[tuple[Any, ...]]:
        """As the driver of the server gives them; by SQLAlchemy's own quoting."""
        quote = self.engine.dialect.identifier_preparer.quote_identifier
        statement = f"SELECT * FROM {quote(table)} ORDER BY {quote(order)}"
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(statement)]


def _sqlite(folder: Path) -> tuple[Callable[..., Sink], str]:
    file = folder / "made.db"
    file.touch()
    return (lambda name, table, **facts: SqliteSink(name, file, table, **facts)), f"sqlite:///{file}"


def _server(kind: Callable[..., Sink], url: str) -> tuple[Callable[..., Sink], str]:
    return (lambda name, table, **facts: kind(name, url, table, **facts)), url


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    kind, _, log = request.param.partition(" ")
    servers = {"mysql": ["services"], "postgres": ["postgres"]}.get(kind, [])
    request.node.fixturenames = [*request.node.fixturenames, *servers]  # for the report
    if kind == "sqlite":
        make, url = _sqlite(tmp_path)
    elif kind == "mysql":
        make, url = _server(MySqlSink, request.getfixturevalue("database"))
    else:
        make, url = _server(PostgresSink, request.getfixturevalue("postgres_database"))
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    yield Place(make, engine, tmp_path, bool(log))
    engine.dispose()


def test_every_value_comes_back_as_it_was(place: Place) -> None:
    place.through(place.sink().open(SCHEMA), ROWS)
    found = place.rows()
    assert [row[0] for row in found] == [1, 2, 3]
    assert found[2][1:] == (None,) * len(VALUES)
    for at, (name, (kind, values)) in enumerate(VALUES.items(), 1):
        assert [plain(row[at], kind) for row in found[:2]] == [plain(value, kind) for value in values], name


def test_the_times_of_dead_letters_are_read_in_utc(place: Place) -> None:
    """Whatever the server's zone: in another one the last moments of the year 9999 are none that Python knows."""
    edges = [dt.datetime(1, 1, 1), _NOW, dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]
    times = [each.replace(tzinfo=dt.UTC) for each in edges]
    letters = [
        {"topic": "t", "partition": 0, "offset": offset, "timestamp": time, "error": "bad", "checkpoint_id": 0}
        for offset, time in enumerate(times)
    ]
    sink = place.sink("letters").open(dead_letters.SCHEMA)
    place.through(sink, pa.RecordBatch.from_pylist(letters, dead_letters.SCHEMA))
    url = place.engine.url
    where = Path(str(url.database)) if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=False)
    found = [dt.datetime.fromisoformat(str(each.timestamp)) for each in read_dead_letters(where, "letters", {})]
    assert [each if each.tzinfo else each.replace(tzinfo=dt.UTC) for each in found] == times
    assert all(each.utcoffset() in (None, dt.timedelta(0)) for each in found)


def plain(value: Any, kind: pa.DataType) -> object:
    """Alike for all servers: those without such a type have it as text, and one has moments without their zone."""
    if pa.types.is_nested(kind):
        return json.loads(value) if isinstance(value, str) else value
    if pa.types.is_decimal(kind):
        return Decimal(str(value))
    if pa.types.is_timestamp(kind):
        moment = dt.datetime.fromisoformat(value.removesuffix("Z")) if isinstance(value, str) else value
        return moment.astimezone(dt.UTC).replace(tzinfo=None) if moment.tzinfo else moment
    if pa.types.is_date(kind):
        return str(value)
    if pa.types.is_time(kind):
        if isinstance(value, dt.timedelta):
            value = (dt.datetime.min + value).time()
        return dt.time.fromisoformat(value) if isinstance(value, str) else value
    if pa.types.is_float32(kind):
        return struct.pack("f", value)
    return bool(value) if pa.types.is_boolean(kind) else value


def test_a_table_that_is_there_is_left_as_it_is(place: Place) -> None:
    place.through(place.sink().open(SCHEMA), ROWS)
    place.through(place.sink().open(SCHEMA), ROWS)
    assert Counter(row[0] for row in place.rows()) == {1: 2, 2: 2, 3: 2}
    with pytest.raises(TargetError, match="column 'more' is missing in the table"):
        place.sink().open(SCHEMA.append(pa.field("more", pa.int8())))


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_table_and_its_columns(place: Place, name: str) -> None:
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False), ("raw", pa.binary())])
    batch = pa.record_batch([pa.array([2, 1]), pa.array([b"\xff", None])], schema=schema)
    (finding,) = (each for each in place.sink(name).check(schema) if "will create" in each.detail)
    assert finding.ok
    assert finding.detail.startswith(f"{name} is missing; will create: CREATE TABLE IF NOT EXISTS ")
    assert place.sink(name).dry_run(schema) == (name, "raw")
    sink = place.sink(name).open(schema)
    place.through(sink, batch)
    assert place.rows(name, name) == [(1, None), (2, b"\xff")]
    assert not [each for each in sink.check(schema) if "will" in each.detail.split()]


def test_the_statement_that_doctor_shows_makes_the_same_table(place: Place) -> None:
    (finding,) = (each for each in place.sink().check(SCHEMA) if "will create" in each.detail)
    assert place.sink().dry_run(SCHEMA) == tuple(SCHEMA.names)
    with place.engine.begin() as connection:
        assert not sqlalchemy.inspect(connection).has_table("made")
        statement = finding.detail.partition("will create: ")[2]
        connection.exec_driver_sql(statement.replace("%", "%%") if connection.dialect.name != "sqlite" else statement)
    place.through(place.sink().open(SCHEMA), ROWS)
    assert len(place.rows()) == 3


def test_many_who_make_it_at_once(place: Place) -> None:
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda _: place.sink().open(SCHEMA), range(16)))
    assert len(opened) == 16
    place.through(opened[-1], ROWS)
    assert len(place.rows()) == 3


@pytest.mark.any_server
def test_sinks_that_make_the_protocols_tables_at_once(postgres_database: str) -> None:
    """Of several errors PostgreSQL gives one to whoever comes second. The sinks of one pipeline start at once."""
    made, at_once = [], 8
    with ExitStack() as stack, ThreadPoolExecutor(at_once) as pool:
        sessions = [stack.enter_context(Session(postgres_database)) for _ in range(at_once)]
        for _ in range(20):
            made += list(pool.map(lambda session: tables.ensure(session, LOG_TABLES, "here"), sessions))
            sessions[0].execute("DROP TABLE " + ", ".join(each.name for each in LOG_TABLES))
    assert len(made) == 20 * at_once


@dataclass(frozen=True)
class Pair:
    """Two keys that a careless collation takes for one."""

    one: str
    other: str


@on_a_log
@pytest.mark.parametrize(
    "pair", [Pair("a", "A"), Pair("a", "a "), Pair("ü", "u"), Pair("\U0001f600", "\U0001f601")], ids=str
)
def test_keys_are_equal_only_if_their_bytes_are(place: Place, pair: Pair) -> None:
    """H15, H16: whatever the server took for one key, Spark would give to two tasks."""
    upsert = Upsert(("key", "number"))
    schema = pa.schema([("key", pa.string()), ("number", pa.int32()), ("value", pa.string()), *METADATA])
    sink = place.sink(upsert=upsert, renamed={"the key": "key"}).open(schema)
    assert sorted(sink.partition_by or ()) == ["key", "number"]

    def batch(*rows: tuple[str, str]) -> pa.RecordBatch:
        keys, values = zip(*rows, strict=True)
        more = [pa.array([7] * len(rows), pa.int32()), pa.array(values), pa.array([0] * len(rows), pa.int32())]
        return pa.record_batch([pa.array(keys), *more, pa.array(range(len(rows)), pa.int64())], schema=schema)

    place.through(sink, batch((pair.one, "first"), (pair.one, "newer")), batch((pair.other, "else")))
    place.through(sink, batch((pair.one, "newest")))
    found = place.rows(order="value")
    assert found == [(pair.other, 7, "else"), (pair.one, 7, "newest")]


@on_a_log_of_a_server
def test_a_key_that_is_too_long_is_found_before_the_decision(place: Place) -> None:
    schema = pa.schema([("key", pa.string()), ("raw", pa.binary()), *METADATA])
    key = ("key", "raw") if "mysql" in str(place.engine.url) else ("key",)
    sink = place.sink(upsert=Upsert(key)).open(schema)
    for at, value in (("key", ["x" * 256, b"y"]), ("raw", ["x", b"y" * 256])):
        if at in key:
            writer = sink.writer(TransactionId(Scope(place.incarnation, 1, 0), sink_key("s"), 0, 0))
            arrays = [pa.array([value[0]]), pa.array([value[1]]), pa.array([0], pa.int32()), pa.array([0], pa.int64())]
            with pytest.raises(Exception, match="longer than 255") as caught:
                writer.write(pa.record_batch(arrays, schema=schema).select(list(sink.columns)))
            assert at in str(caught.value)


NARROW = pa.schema([pa.field("id", pa.int64(), nullable=False), ("word", pa.string())])
WIDE = pa.schema([*NARROW, ("more 100%", pa.decimal128(9, 2)), pa.field("must", pa.timestamp("us"), nullable=False)])
_LATER = (Decimal("1.50"), _NOW)


def narrow(*ids: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(ids), pa.array([f"w{each}" for each in ids])], schema=NARROW)


def wide(*ids: int) -> pa.RecordBatch:
    more = [pa.array([value] * len(ids), field.type) for value, field in zip(_LATER, [*WIDE][2:], strict=True)]
    return pa.record_batch([*narrow(*ids).columns, *more], schema=WIDE)


def found(place: Place) -> list[tuple[object, ...]]:
    """The rows, alike for all servers."""
    kinds = [field.type for field in WIDE]
    return [tuple(v and plain(v, k) for v, k in zip(row, kinds, strict=False)) for row in place.rows()]


def test_columns_that_the_table_lacks_are_added(place: Place) -> None:
    place.through(place.sink().open(NARROW), narrow(1))
    with pytest.raises(TargetError, match="column 'more 100%' is missing in the table"):
        place.sink().open(WIDE)
    evolving = place.sink(evolve=True)
    ahead = [each.detail for each in evolving.check(WIDE) if "will change" in each.detail]
    assert len(ahead) == 2
    assert evolving.dry_run(WIDE) == tuple(WIDE.names)
    assert len(place.rows()[0]) == 2
    with ThreadPoolExecutor(8) as pool:  # all look, and one of them is first
        sinks = list(pool.map(lambda _: evolving.open(WIDE), range(16)))
    place.through(sinks[-1], wide(2))
    place.through(place.sink(evolve=True).open(NARROW), narrow(3))  # as if rows were run again by the old spec
    assert found(place) == [(1, "w1", None, None), (2, "w2", *_LATER), (3, "w3", None, None)]
    assert not [each for each in evolving.check(WIDE) if "will change" in each.detail]


@on_a_log
def test_segments_of_before_fit_the_wider_table(place: Place) -> None:
    """Decided, and applied only when the table has more columns."""
    upsert = Upsert(("id",))
    both = [pa.array([0], pa.int32()), pa.array([0], pa.int64())]
    before, after = pa.schema([*NARROW, *METADATA]), pa.schema([*WIDE, *METADATA])
    sink = place.sink(upsert=upsert).open(before)
    commit = place.prepared(sink, pa.record_batch([*narrow(1).columns, *both], schema=before))
    evolved = place.sink(upsert=upsert, evolve=True).open(after)
    commit()
    place.through(evolved, pa.record_batch([*wide(2).columns, *both], schema=after))
    assert found(place) == [(1, "w1", None, None), (2, "w2", *_LATER)]


@pytest.mark.parametrize("place", [PLACES[0], PLACES[2]], indirect=True)
def test_what_is_prepared_keeps_the_table_as_it_is(place: Place) -> None:
    """So recovery ends it before a sink is opened (R3). Somebody else's is waited for, and not for ever."""
    commit = place.prepared(place.sink().open(NARROW), narrow(1))
    with pytest.raises(SinkUnavailableError, match="ALTER TABLE"):
        place.sink(evolve=True).open(WIDE)
    commit()
    place.through(place.sink(evolve=True).open(WIDE), wide(2))
    assert found(place) == [(1, "w1", None, None), (2, "w2", *_LATER)]


def test_a_type_is_never_changed(place: Place) -> None:
    """Nor is anything else then; the statement is shown, where the database has one."""
    place.sink().open(NARROW)
    with pytest.raises(TargetError, match="'id'") as caught:
        place.sink(evolve=True).open(pa.schema([("id", pa.list_(pa.int8())), *[*WIDE][1:]]))
    for change in ("MODIFY COLUMN `id` JSON NOT NULL", 'ALTER COLUMN "id" TYPE JSON', "declare it TEXT"):
        if change in str(caught.value):
            break
    else:
        pytest.fail(str(caught.value))
    place.through(place.sink().open(NARROW), narrow(1))
    assert place.rows() == [(1, "w1")]


@on_a_log
def test_a_key_is_not_added(place: Place) -> None:
    schema = pa.schema([("key", pa.int64()), *NARROW, *METADATA])
    place.sink(upsert=Upsert(("id",))).open(pa.schema([*NARROW, *METADATA]))
    with pytest.raises(TargetError, match="no unique index is on key and nothing else"):
        place.sink(upsert=Upsert(("key",)), evolve=True).open(schema)
    ahead = place.sink(upsert=Upsert(("key",)), evolve=True).check(schema)
    assert not [each for each in ahead if "will change" in each.detail]
