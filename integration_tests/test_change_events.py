"""Change events of a table become a copy of it: by hand-made events, and by Debezium itself. Killed in between."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from integration_tests.conftest import TopicFactory
from integration_tests.harness.drain import await_text, drain
from integration_tests.harness.kills import kill_at
from integration_tests.harness.pipeline import Pipeline
from integration_tests.services import Services
from integration_tests.services.debezium_native import Debezium
from integration_tests.services.registry_native import SchemaRegistry
from tests.connectors.formats.binlog_json.written import canal, maxwell
from tests.connectors.formats.debezium.registered import envelope, optional, record
from tests.connectors.formats.debezium.written import connect_field, packed, wrapped, wrapped_key

pytestmark = pytest.mark.in_turns

_KEYS: Final = 60
_PARTITIONS: Final = 2
_FIELDS: Final = [
    connect_field("id", "int64"),
    connect_field("name", "string"),
    connect_field("at", "int64", "io.debezium.time.MicroTimestamp"),
]
_DDL: Final = "id BIGINT NOT NULL, name STRING, at TIMESTAMP_NTZ"

Row = dict[str, Any]


class Table:
    """A table that changes at random, and the events of its changes."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.rows: dict[int, Row] = {}
        self.events = 0

    def change(self) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
        """Yield key and event of one change, or of both halves of a change of the key. None: a tombstone."""
        key = self._chance.randrange(_KEYS)
        before = self.rows.get(key)
        if before is None or self._chance.random() < 0.6:
            after = {"id": key, "name": f"name {self.events} ünï", "at": 1_700_000_000_000_000 + self.events}
            self.rows[key] = after
            yield key, self._event("c" if before is None else "u", before, after)
        elif self._chance.random() < 0.5:
            yield from self._delete(key)
        else:
            other = self._chance.choice([each for each in range(_KEYS) if each not in self.rows] or [key])
            yield from self._delete(key)
            self.rows[other] = {**before, "id": other}
            yield other, self._event("c", None, self.rows[other])

    def _delete(self, key: int) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
        before = self.rows.pop(key)
        yield key, self._event("d", before if self._chance.random() < 0.7 else None, None)
        yield key, None

    def _event(self, op: str, before: Row | None, after: Row | None) -> Mapping[str, Any]:
        self.events += 1
        source = {
            "version": "3",
            "ts_ms": 1,
            "snapshot": "false",
            "file": "binlog.000001",
            "pos": self.events,
            "row": 0,
        }
        return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1}

    def expected(self) -> list[tuple[Any, ...]]:
        """The rows as the copy must have them."""
        return sorted((row["id"], row["name"], row["at"]) for row in self.rows.values())


@pytest.fixture
def copy(pipeline: Pipeline, topic: TopicFactory, services: Services) -> Pipeline:
    """A pipeline that copies changes without a step of its own, some at a time."""
    pipeline.table.execute(f"DROP TABLE {pipeline.table.name}")
    pipeline.table.execute(
        f"CREATE TABLE {pipeline.table.name} (id BIGINT PRIMARY KEY, name VARCHAR(40), at DATETIME(6)) CHARSET utf8mb4"
    )
    pipeline.spec["transforms"] = []
    pipeline.spec["checkpoint"]["max_records_per_checkpoint"] = 200
    pipeline.spec["dead_letter"] = {
        "connector": "kafka",
        "bootstrap_servers": services.kafka_bootstrap,
        "topic": topic(partitions=1),
    }
    pipeline.source["format"] = {"type": "debezium", "schema": _DDL}
    (sink,) = pipeline.spec["sinks"]
    sink |= {"from": "incoming", "commit": "upsert", "key": ["id"], "deleted": "_deleted"}
    return pipeline


def _found(pipeline: Pipeline) -> list[tuple[Any, ...]]:
    micros = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', at)"
    return sorted(pipeline.table.execute(f"SELECT id, name, {micros} FROM {pipeline.table.name}"))


def _letters(pipeline: Pipeline) -> list[str]:
    letter = pipeline.spec["dead_letter"]
    return sorted(each.reason for each in drain(letter["bootstrap_servers"], letter["topic"]))


_NO_ROWS: Final = (
    b'{"ts_ms":1}',
    packed({"status": "END", "id": "1", "ts_ms": 1, "event_count": 1, "data_collections": []}),
    packed({"source": {"ts_ms": 1}, "ts_ms": 1, "databaseName": "d", "ddl": "CREATE", "tableChanges": []}),
)


@pytest.mark.any_server
@pytest.mark.timeout(600)
@pytest.mark.parametrize("has_schemas", [True, False])
def test_events_in_json_are_applied_once(copy: Pipeline, has_schemas: bool) -> None:
    """Records that are no rows are no dead letters, and those that are have a reason."""
    if not has_schemas:
        copy.source["format"]["types"] = {"at": "MicroTimestamp"}
    table = Table(41 + has_schemas)
    producer = Producer({"bootstrap.servers": copy.source["bootstrap_servers"]})

    def send(key: int, value: bytes | None) -> None:
        named = packed({"id": key})
        named = wrapped_key(_FIELDS[:1], named) if has_schemas else named
        value = wrapped(_FIELDS, value) if has_schemas and value is not None else value
        producer.produce(copy.workload.topic, value, named, key % _PARTITIONS)

    def change(count: int) -> None:
        for number in range(count):
            for key, event in table.change():
                send(key, None if event is None else packed(event))
            if number % 50 == 0:
                for each in _NO_ROWS:
                    send(number % 2, each)
        assert producer.flush(60) == 0

    change(500)
    send(0, packed({"before": None, "after": None, "op": "t"}))
    send(1, packed({"before": None, "after": {"id": "x"}, "op": "c"}))
    kill_at(copy, "before-decide", "after-decide", "applying", "after-commits")
    change(500)
    copy.catch_up()
    assert _found(copy) == table.expected()
    assert table.events > 1_000
    assert len(table.rows) > 20
    assert copy.prepared() == []
    first, second = _letters(copy)
    assert first.startswith("field after/id: expected number, found string")
    assert second.startswith("the table was truncated")


@pytest.mark.registry
@pytest.mark.any_server
@pytest.mark.timeout(600)
def test_events_in_avro_are_applied_once(copy: Pipeline, registry: SchemaRegistry) -> None:
    copy.source["format"] |= {"encoding": "confluent", "registry": {"url": registry.url}}
    client = SchemaRegistryClient({"url": registry.url})
    topic = copy.workload.topic
    client.set_compatibility(f"{topic}-value", "NONE")
    micros = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    schemas = [
        envelope({"id": "long", "name": optional("string"), "at": optional(micros)}),
        envelope({"at": micros, "more": optional("double"), "name": "string", "id": "int"}),
    ]
    values = [AvroSerializer(client, json.dumps(each)) for each in schemas]
    keys = AvroSerializer(client, json.dumps(record("Key", {"id": "long"})))
    producer = Producer({"bootstrap.servers": copy.source["bootstrap_servers"]})
    table = Table(43)

    def change(count: int) -> None:
        for number in range(count):
            for key, event in table.change():
                value = values[number % 2](event, SerializationContext(topic, MessageField.VALUE)) if event else None
                named = keys({"id": key}, SerializationContext(topic, MessageField.KEY))
                producer.produce(topic, value, named, key % _PARTITIONS)
        assert producer.flush(60) == 0

    change(300)
    producer.produce(topic, b"\0\0\0\0\1", b"", 0)
    kill_at(copy, "before-decide", "after-decide")
    change(300)
    copy.catch_up()
    assert _found(copy) == table.expected()
    assert len(_letters(copy)) == 1
    assert len(copy.head.schemas["incoming"]) >= 3  # of both writers, and of keys


class Statements:
    """A table that statements of several rows change, and the documents of Maxwell or Canal about them."""

    def __init__(self, seed: int, kind: str) -> None:
        self._chance = random.Random(seed)
        self._is_canal = kind == "canal"
        self.rows: dict[int, Row] = {}
        self.changed = 0  # rows
        self.statements = 0

    def run(self) -> Iterator[bytes]:
        """Yield the documents of one statement: a row each, or all rows in one."""
        self.statements += 1
        kind = self._chance.choice(["insert", "insert", "update", "delete", "move"])
        there = self._chance.sample(sorted(self.rows), min(len(self.rows), self._chance.randrange(1, 6)))
        free = [key for key in range(200) if key not in self.rows]
        if kind == "insert":
            there = self._chance.sample(free, min(len(free), self._chance.randrange(1, 6)))
        data, old = [], []
        for key in there:
            before = self.rows.pop(key, None)
            after = self._new_row(free.pop() if kind == "move" and free else key, before)
            data.append(before if kind == "delete" and before else after)
            old.append({name: before[name] for name in before if before[name] != after[name]} if before else None)
            if kind != "delete":
                self.rows[after["id"]] = after
        self.changed += len(data)
        if data:
            yield from self._documents("update" if kind == "move" else kind, data, old)

    def _new_row(self, key: int, before: Row | None) -> Row:
        name = f"name {self.statements} ünï" if self._chance.random() < 0.9 or not before else before["name"]
        return {"id": key, "name": name, "at": f"2024-02-29 10:00:00.{self.statements:06}"}

    def _documents(self, kind: str, data: list[Row], old: list[Row | None]) -> Iterator[bytes]:
        if not self._is_canal:
            for row, before in zip(data, old, strict=True):
                yield maxwell(kind, row, before if kind == "update" else None)
            return
        texts = [{name: str(value) for name, value in row.items()} for row in data]
        before_texts = [{name: str(value) for name, value in (row or {}).items()} for row in old]
        yield canal(kind.upper(), texts, before_texts if kind == "update" else None)

    def expected(self) -> list[tuple[Any, ...]]:
        """The rows as the copy must have them."""
        return sorted((row["id"], row["name"], _micros(row["at"])) for row in self.rows.values())


def _micros(text: str) -> int:
    at = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


_OTHERS: Final = {
    "maxwell": (
        maxwell("insert", {"id": 1, "name": "other", "at": 5}, table="other"),
        maxwell("bootstrap-start", {}),
        maxwell("table-alter", None, {"columns": [], "id": "x"}),
    ),
    "canal": (
        canal("INSERT", [{"id": "x", "name": "other"}], table="other"),
        canal("ALTER", None, isDdl=True, sql="ALTER TABLE orders ADD COLUMN more INT"),
    ),
}


@pytest.mark.any_server
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["maxwell", "canal"])
def test_documents_of_several_rows_are_applied_once(copy: Pipeline, kind: str) -> None:
    """Rows of one record, changed keys, other tables and changes of the schema; a bad record is one dead letter."""
    copy.source["format"] = {"type": kind, "table": "shop.orders", "schema": _DDL, "key": ["id"]}
    producer = Producer({"bootstrap.servers": copy.source["bootstrap_servers"]})
    table = Statements(47, kind)

    def change(count: int) -> int:
        sent = 0
        for number in range(count):
            for document in table.run():
                producer.produce(copy.workload.topic, document, partition=0)
                sent += 1
            if number % 20 == 0:
                for other in _OTHERS[kind]:
                    producer.produce(copy.workload.topic, other, partition=0)
        assert producer.flush(60) == 0
        return sent

    documents = change(300)
    bad = canal("INSERT", [{"id": "500"}, {"id": "x"}]) if kind == "canal" else maxwell("insert", {"id": "x"})
    producer.produce(copy.workload.topic, bad, partition=0)
    kill_at(copy, "before-decide", "after-decide", "applying", "after-commits")
    documents += change(300)
    copy.catch_up()
    assert _found(copy) == table.expected()
    assert table.changed > 1_000
    assert documents == table.changed if kind == "maxwell" else documents < table.changed / 2
    assert len(table.rows) > 50
    assert copy.prepared() == []
    assert len(_letters(copy)) == 1


@pytest.mark.registry
@pytest.mark.any_server
@pytest.mark.timeout(600)
@pytest.mark.parametrize("key_encoding", ["confluent", "string"])
def test_rows_in_avro_with_scalar_keys_are_applied_once(
    copy: Pipeline, registry: SchemaRegistry, key_encoding: str
) -> None:
    """Values of two versions of a schema, which lack the key; deletions have only the key."""
    keys = {"key": "id", "key_encoding": key_encoding}
    copy.source["format"] = {"type": "upsert", "schema": _DDL, **keys, "encoding": "confluent"}
    copy.source["format"]["registry"] = {"url": registry.url}
    client = SchemaRegistryClient({"url": registry.url})
    topic = copy.workload.topic
    client.set_compatibility(f"{topic}-value", "NONE")
    micros = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    schemas = [
        record("Value", {"name": optional("string"), "at": optional(micros)}),
        record("Value", {"at": micros, "more": optional("double"), "name": "string"}),
    ]
    values = [AvroSerializer(client, json.dumps(each)) for each in schemas]
    in_avro = AvroSerializer(client, '"long"')
    producer = Producer({"bootstrap.servers": copy.source["bootstrap_servers"]})
    chance = random.Random(48)
    rows: dict[int, tuple[Any, ...]] = {}
    counts = {"rows": 0, "deletions": 0}

    def change(count: int) -> None:
        for number in range(count):
            key = chance.randrange(_KEYS)
            named = str(key).encode()
            if key_encoding == "confluent":
                named = in_avro(key, SerializationContext(topic, MessageField.KEY))
            if chance.random() < 0.7:
                rows[key] = (key, f"name {number} ünï", 1_700_000_000_000_000 + number)
                columns = dict(zip(("name", "at"), rows[key][1:], strict=True))
                value = values[number % 2](columns, SerializationContext(topic, MessageField.VALUE))
                counts["rows"] += 1
            else:
                rows.pop(key, None)
                value = None
                counts["deletions"] += 1
            producer.produce(topic, value, named, key % _PARTITIONS)
        assert producer.flush(60) == 0

    change(400)
    producer.produce(topic, None, b"no key", 0)
    producer.produce(topic, b"\0\0\0\0\1", b"1", 0)
    kill_at(copy, "before-decide", "after-decide")
    change(400)
    copy.catch_up()
    assert _found(copy) == sorted(rows.values())
    assert counts["rows"] > 400
    assert counts["deletions"] > 200
    assert len(rows) > 30
    assert len(_letters(copy)) == 2
    assert len(copy.head.schemas["incoming"]) >= 2 + (key_encoding == "confluent")


_TYPES: Final = (
    "id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL, price DECIMAL(10,2), big DECIMAL(38,10), day DATE, dt DATETIME, "
    "dt6 DATETIME(6), ts TIMESTAMP(6) NULL, f DOUBLE, bl VARBINARY(20), txt TEXT, "
    "en ENUM('a','b'), bo BOOLEAN"
)
_ALL_DDL: Final = (
    "id BIGINT NOT NULL, name STRING NOT NULL, price DECIMAL(10,2), big DECIMAL(38,10), day DATE, dt TIMESTAMP_NTZ, "
    "dt6 TIMESTAMP_NTZ, ts TIMESTAMP, f DOUBLE, bl BINARY, txt STRING, en STRING, bo SMALLINT"
)


class Original:
    """A table in the database that is changed at random by SQL."""

    def __init__(self, url: str, seed: int) -> None:
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
        self._connection = engine.connect()
        self._chance = random.Random(seed)
        for name in ("original", "copied"):
            self.execute(f"CREATE TABLE {name} ({_TYPES}) CHARSET utf8mb4 COLLATE utf8mb4_nopad_bin")

    def execute(self, statement: str) -> list[Any]:
        result = self._connection.exec_driver_sql(statement)
        return list(result) if result.returns_rows else []

    def close(self) -> None:
        self._connection.close()

    def change(self, count: int) -> None:
        """Insert, update and delete rows, and change keys; in transactions of some statements."""
        for _ in range(count):
            self.execute("BEGIN")
            for _ in range(self._chance.randrange(1, 4)):
                self._change_one(self._chance.randrange(1, 200))
            self.execute("COMMIT" if self._chance.random() < 0.9 else "ROLLBACK")

    def _change_one(self, key: int) -> None:
        kind = self._chance.random()
        if kind < 0.5:
            self.execute(f"REPLACE INTO original VALUES ({key}, {self._values()})")
        elif kind < 0.75:
            self.execute(f"UPDATE original SET price = price + 1.25, dt6 = NULL, txt = 'ü %% {kind}' WHERE id = {key}")
        elif kind < 0.88:
            self.execute(f"DELETE FROM original WHERE id = {key}")
        else:
            other = self._chance.randrange(200, 300)
            self.execute(f"UPDATE IGNORE original SET id = {other} WHERE id = {key}")

    def _values(self) -> str:
        at = f"2024-02-29 {self._chance.randrange(24):02}:59:59.{self._chance.randrange(10**6):06}"
        number = self._chance.randrange(-(10**9), 10**9)
        return (
            f"'n{number}', {number / 1000:.2f}, '{number}12345678901234567.0123456789', '1999-12-31', '{at[:19]}', "
            f"'{at}', '{at}', {number}.25, "
            f"x'00ff{number % 100:02}', NULL, 'b', {number % 2}"
        )

    def differing(self) -> list[Any]:
        """Rows that only one of the tables has."""
        columns = "SELECT * FROM"
        both = f"({columns} original EXCEPT {columns} copied) UNION ALL ({columns} copied EXCEPT {columns} original)"
        return self.execute(both)

    def checksums(self) -> set[int]:
        """Of both tables."""
        return {each[1] for each in self.execute("CHECKSUM TABLE original, copied EXTENDED")}


@pytest.mark.only_on("MariaDB", "Debezium's connector for MariaDB")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("has_schemas", [True, False])
def test_debezium_makes_a_copy(copy: Pipeline, services: Services, tmp_path: Path, has_schemas: bool) -> None:
    """Pipeline and Debezium are killed; in the end the copy is the original."""
    name = copy.table.url.rpartition("/")[2]
    original = Original(copy.table.url, 44 + has_schemas)
    settings = {
        "database.include.list": name,
        "table.include.list": f"{name}.original",
        "heartbeat.interval.ms": "200",
        "key.converter.schemas.enable": str(has_schemas).lower(),
        "value.converter.schemas.enable": str(has_schemas).lower(),
    }
    types = {} if has_schemas else {"dt": "Timestamp", "dt6": "MicroTimestamp"}
    copy.source["format"] = {"type": "debezium", "schema": _ALL_DDL, "types": types}
    copy.spec["sinks"][0]["table"] = "copied"
    original.change(100)
    folder = tmp_path / "debezium"
    folder.mkdir()
    with Debezium(folder, services.kafka_bootstrap, services.admin_database_url, name, settings) as debezium:
        topic = f"{name}.{name}.original"
        copy.source["topics"] = [topic]
        await_text(services.kafka_bootstrap, topic, '"op":"r"')
        original.change(300)
        kill_at(copy, "before-decide", "after-decide")
        original.change(300)
        debezium.kill()
        original.change(300)
        kill_at(copy, "applying")
        debezium.start()
        original.execute("INSERT INTO original (id, name) VALUES (1000, 'the last one')")
        await_text(services.kafka_bootstrap, topic, "the last one")
    copy.catch_up()
    assert original.differing() == []
    assert len(original.checksums()) == 1
    (count,) = original.execute("SELECT COUNT(*) FROM copied")
    assert count[0] > 100
    assert _letters(copy) == []
    original.close()


_RARE: Final = (
    "id BIGINT PRIMARY KEY, big BIGINT UNSIGNED, members SET('x','y','z'), flag BIT(1), bits BIT(8), "
    "wide DECIMAL(65,30), doc JSON, shape GEOMETRY, built YEAR, spent TIME(6), day DATE, at DATETIME"
)
_RARE_COPIED: Final = (
    "id BIGINT PRIMARY KEY, big BIGINT UNSIGNED, members SET('x','y','z'), flag BOOLEAN, bits VARBINARY(8), "
    "wide DECIMAL(65,30), doc LONGTEXT, shape VARBINARY(200), built SMALLINT, spent VARCHAR(20), day DATE, at DATETIME"
)
_RARE_DDL: Final = (
    "id BIGINT NOT NULL, big DECIMAL(20,0), members STRING, flag BOOLEAN, bits BINARY, wide STRING, doc STRING, "
    "shape STRUCT<wkb: BINARY>, built INT, spent STRING, day DATE, at TIMESTAMP_NTZ"
)
_RARE_STEP: Final = (
    "SELECT id, big, members, flag, bits, wide, doc, shape.wkb AS shape, built, spent, day, at, _deleted, _partition, "
    "_offset FROM incoming"
)
_IN_ORIGINAL: Final = (
    "SELECT id, big, members, flag + 0, LPAD(HEX(bits), 2, '0'), wide, doc, HEX(ST_AsBinary(shape)), built + 0, "
    "TIME_FORMAT(spent, '%%H:%%i:%%s.%%f'), NULLIF(day + 0, 0), NULLIF(at + 0, 0) FROM rare"
)
_IN_COPY: Final = (
    "SELECT id, big, members, flag + 0, HEX(bits), wide, doc, HEX(shape), built + 0, spent, day + 0, at + 0 FROM copied"
)


@pytest.mark.only_on("MariaDB", "Debezium's connector for MariaDB")
@pytest.mark.timeout(900)
def test_rare_types_of_mariadb(copy: Pipeline, services: Services, tmp_path: Path) -> None:
    """Each value is the same in the copy, except a zero date, which Debezium writes as NULL."""
    name = copy.table.url.rpartition("/")[2]
    engine = sqlalchemy.create_engine(copy.table.url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    connection = engine.connect()

    def execute(statement: str) -> list[Any]:
        result = connection.exec_driver_sql(statement)
        return list(result) if result.returns_rows else []

    execute("SET SESSION sql_mode = ''")
    execute(f"CREATE TABLE rare ({_RARE}) CHARSET utf8mb4")
    execute(f"CREATE TABLE copied ({_RARE_COPIED}) CHARSET utf8mb4")
    settings = {
        "database.include.list": name,
        "table.include.list": f"{name}.rare",
        "bigint.unsigned.handling.mode": "precise",
        "decimal.handling.mode": "string",
    }
    copy.source["format"] = {"type": "debezium", "schema": _RARE_DDL}
    copy.spec["transforms"] = [{"name": "rows", "sql": _RARE_STEP}]
    copy.spec["sinks"][0] |= {"table": "copied", "from": "rows"}
    folder = tmp_path / "debezium"
    folder.mkdir()
    widest = f"{'9' * 35}.{'9' * 30}"
    document = '{"a": [1, 1.50, null]}'
    point = "ST_GeomFromText('POINT(1.5 -2)')"
    with Debezium(folder, services.kafka_bootstrap, services.admin_database_url, name, settings) as debezium:
        execute(f"INSERT INTO rare (id, big, wide, doc) VALUES (1, {2**64 - 1}, -{widest}, '{document}')")
        rows = "(2, 'x,z', 1, 255, 1901), (3, '', 0, 1, 2155)"
        execute(f"INSERT INTO rare (id, members, flag, bits, built) VALUES {rows}")
        rows = f"(4, {point}, '-838:59:58.999999'), (5, NULL, '00:00:00.000001')"
        execute(f"INSERT INTO rare (id, shape, spent) VALUES {rows}")
        rows = "(6, '0000-00-00', '0000-00-00'), (7, '9999-12-31', '1000-01-01')"
        execute(f"INSERT INTO rare (id, day, at) VALUES {rows}")
        execute("UPDATE rare SET big = big - 1, wide = 0.000000000000000000000000000001 WHERE id IN (1, 2)")
        topic = f"{name}.{name}.rare"
        copy.source["topics"] = [topic]
        await_text(services.kafka_bootstrap, topic, '"id":7')
        kill_at(copy, "before-decide")
        debezium.kill()
        execute("DELETE FROM rare WHERE id = 5")
        execute("INSERT INTO rare (id, doc) VALUES (8, '\"the last one\"')")
        debezium.start()
        await_text(services.kafka_bootstrap, topic, "the last one")
    copy.catch_up()
    assert _letters(copy) == []
    expected = sorted(map(tuple, execute(_IN_ORIGINAL)))
    assert [row[0] for row in expected] == [1, 2, 3, 4, 6, 7, 8]
    assert sorted(map(tuple, execute(_IN_COPY))) == expected
    assert execute("SELECT day, at FROM copied WHERE id = 6") == [(None, None)]
    connection.close()
