"""One pipeline copies the tables of a shop: each topic into a table of its own, killed in between."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from connectors.log.keyed import Upsert
from connectors.log.place import LogPlace
from connectors.sql.table_settings import Rewrite, Route
from eos.errors import BadRowError
from integration_tests import topics
from integration_tests.conftest import TopicFactory
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.drain import drain
from integration_tests.harness.kills import kill_at
from integration_tests.harness.pipeline import Pipeline
from integration_tests.multi_table import Tables, batch
from integration_tests.services import Services
from tests.connectors.formats.debezium.written import connect_field, packed, wrapped, wrapped_key

pytestmark = pytest.mark.in_turns

_PARTITIONS: Final = 2
_KEYS: Final = 40
_ORDERS: Final = {"id": "int64", "buyer": "string"}
_ITEMS: Final = {"order_id": "int64", "line": "int32", "sku": "string"}
_USERS: Final = {"name": "string", "born": "int32"}

Row = dict[str, Any]


class Table:
    """A table of the shop that changes at random, and the events of its changes in a topic."""

    def __init__(self, topic: str, types: Mapping[str, str], key: int, seed: int) -> None:
        self.topic = topic
        self.types = dict(types)
        self.key = [*types][:key]
        self.rows: dict[tuple[Any, ...], Row] = {}
        self.events = 0
        self._chance = random.Random(seed)

    def change(self) -> Iterator[tuple[bytes, bytes | None, int]]:
        """Yield key, value and partition of the records of one change."""
        number = self._chance.randrange(_KEYS)
        key = tuple(number if kind != "string" else f"käy {number}" for kind in [*self.types.values()][: len(self.key)])
        before = self.rows.get(key)
        named = dict(zip(self.key, key, strict=True))
        if before is not None and self._chance.random() < 0.3:
            del self.rows[key]
            yield self._record(named, self._event("d", before if self._chance.random() < 0.5 else None, None), number)
            yield self._record(named, None, number)
            return
        values = {name: self._value(kind) for name, kind in self.types.items() if name not in named}
        self.rows[key] = named | values
        yield self._record(named, self._event("u" if before else "c", before, self.rows[key]), number)

    def _value(self, kind: str) -> object:
        if self._chance.random() < 0.1:
            return None
        return f"välue {self.events}" if kind == "string" else self.events

    def _event(self, op: str, before: Row | None, after: Row | None) -> Mapping[str, Any]:
        self.events += 1
        source = {"connector": "mysql", "ts_ms": 1, "file": "binlog.000001", "pos": self.events, "row": 0}
        return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1}

    def _record(self, key: Row, event: Mapping[str, Any] | None, number: int) -> tuple[bytes, bytes | None, int]:
        fields = [connect_field(name, kind) for name, kind in self.types.items()]
        of_key = [each for each in fields if each["field"] in self.key]
        value = None if event is None else wrapped(fields, packed(event))
        return wrapped_key(of_key, packed(key)), value, number % _PARTITIONS

    def expected(self) -> list[tuple[Any, ...]]:
        """The rows as the copy must have them, with null in columns that a row never had."""
        return sorted((tuple(row.get(name) for name in self.types) for row in self.rows.values()), key=str)


class Shop:
    """Some tables, whose changes alternate."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.prefix = prefix
        self.tables: dict[str, Table] = {}
        self._bootstrap = bootstrap
        self._producer = Producer({"bootstrap.servers": bootstrap})

    def create(self, name: str, types: Mapping[str, str], key: int) -> Table:
        topic = f"{self.prefix}.{name}"
        topics.create(self._bootstrap, topic, _PARTITIONS, {})
        self.tables[name] = Table(topic, types, key, seed=len(self.tables))
        return self.tables[name]

    def send(self, topic: str, key: bytes | None, value: bytes | None, partition: int) -> None:
        self._producer.produce(topic, value, key, partition)

    def change(self, count: int) -> None:
        for _ in range(count):
            for table in self.tables.values():
                for record in table.change():
                    self.send(table.topic, *record)
        assert self._producer.flush(60) == 0

    def close(self) -> None:
        topics.delete(self._bootstrap, [table.topic for table in self.tables.values()])


@pytest.fixture
def shop(services: Services, topic: TopicFactory) -> Iterator[Shop]:
    made = Shop(services.kafka_bootstrap, topic())
    yield made
    made.close()


@pytest.fixture
def copy(pipeline: Pipeline, shop: Shop, topic: TopicFactory, services: Services) -> Pipeline:
    """A pipeline that copies each table of the shop, some changes at a time."""
    pipeline.spec["transforms"] = []
    pipeline.spec["checkpoint"]["max_records_per_checkpoint"] = 300
    pipeline.spec["dead_letter"] = {
        "connector": "kafka",
        "bootstrap_servers": services.kafka_bootstrap,
        "topic": topic(partitions=1),
    }
    del pipeline.source["topics"]
    pipeline.source.update(topics_pattern=f"{shop.prefix}[.].*", format={"type": "debezium"})
    (sink,) = pipeline.spec["sinks"]
    sink |= {
        "from": "incoming",
        "table": "${topic}",
        "rewrite": [{"match": f"{shop.prefix}[.]secret", "to": None}, {"match": r".*[.](\w+)", "to": r"copy_\1"}],
        "commit": "upsert",
        "deleted": "_deleted",
        "create": "if-missing",
        "evolve": "add-columns",
        "unroutable": "dead-letter",
    }
    return pipeline


def _found(pipeline: Pipeline, name: str, table: Table) -> list[tuple[Any, ...]]:
    columns = ", ".join(f"`{column}`" for column in table.types)
    return sorted(pipeline.table.execute(f"SELECT {columns} FROM copy_{name}"), key=str)


@pytest.mark.any_server
@pytest.mark.timeout(600)
def test_each_topic_is_copied_into_its_table(copy: Pipeline, shop: Shop) -> None:
    """Kills, a table that appears while the pipeline lives, a column that is added, records without a table."""
    orders = shop.create("orders", _ORDERS, 1)
    shop.create("items", _ITEMS, 2)
    shop.change(200)
    kill_at(copy, "before-decide", "after-decide", "applying", "after-commits")
    shop.create("users", _USERS, 1)
    orders.types["price"] = "int64"
    shop.change(200)
    kill_at(copy, "before-decide")
    secret = shop.create("secret", _USERS, 1)
    del shop.tables["secret"]
    kept = [record for _ in range(7) for record in secret.change()]
    for record in kept:
        shop.send(secret.topic, *record)
    shop.send(orders.topic, b"{}", b"no event", 0)
    shop.change(100)
    copy.catch_up()
    topics.delete(copy.source["bootstrap_servers"], [secret.topic])
    for name, table in shop.tables.items():
        assert _found(copy, name, table) == table.expected(), name
        assert table.events >= 300
        assert len(table.rows) > 10
    assert copy.prepared() == []
    letter = copy.spec["dead_letter"]
    letters = drain(letter["bootstrap_servers"], letter["topic"])
    reasons = [each.reason for each in letters]
    events = sum(value is not None for _, value, _ in kept)
    assert sum("no table for records of topic" in reason for reason in reasons) == events > 0
    assert len(reasons) == events + 1


@pytest.mark.any_server
def test_a_look_shows_the_first_rows_of_each_table(copy: Pipeline, shop: Shop, eos: CommandLine) -> None:
    """And changes nothing: neither tables nor the checkpoint."""
    shop.create("orders", _ORDERS, 1)
    shop.create("items", _ITEMS, 2)
    shop.change(20)
    (record, *_) = shop.create("secret", _USERS, 1).change()
    shop.send(shop.tables["secret"].topic, *record)
    shop.change(0)
    before = copy.table.execute("SHOW TABLES")
    asked = ["preview", str(copy.write_spec()), "--rows", "5"]
    ended = eos.run([*asked, "--json"], copy.environment)
    assert ended.code == 0, ended.output
    found = {each["topic"]: each for each in json.loads(ended.output[ended.output.index("{\n") :])["tables"]}
    assert {topic.rpartition(".")[2]: each["table"] for topic, each in found.items()} == {
        "items": "copy_items",
        "orders": "copy_orders",
        "secret": None,
    }
    of_items, of_secret = found[shop.tables["items"].topic], found[shop.tables["secret"].topic]
    assert {"name": "sku", "type": "STRING"} in of_items["columns"]
    assert len(of_items["rows"]) == 5
    assert all(row.keys() >= {"order_id", "line", "sku"} for row in of_items["rows"])
    assert "no table for records of topic" in of_secret["problem"]
    assert len(of_secret["rows"]) == 1
    shown = eos.run(asked, copy.environment)
    assert (shown.code, "copy_items, from topic" in shown.output) == (0, True), shown.output
    assert "A run could not write these rows: sink" in shown.output
    assert copy.table.execute("SHOW TABLES") == before
    assert not copy.location.exists()


class _Events:
    """Records of several kinds in one topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.of_kind: dict[str | None, dict[int, int]] = {}
        """By kind, the amount of each id as its last record has it."""
        self.records: Counter[str | None] = Counter()
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._topic = topic
        self._chance = random.Random(24)

    def send(self, count: int, *kinds: str | None) -> None:
        for _ in range(count):
            kind, number, amount = self._chance.choice(kinds), self._chance.randrange(_KEYS), self.records.total()
            value = json.dumps({"id": number, "kind": kind, "amount": amount})
            self._producer.produce(self._topic, value, str(number), number % _PARTITIONS)
            self.of_kind.setdefault(kind, {})[number] = amount
            self.records[kind] += 1
        assert self._producer.flush(60) == 0


@pytest.mark.any_server
@pytest.mark.timeout(600)
def test_each_value_of_a_column_has_its_table(copy: Pipeline, topic: TopicFactory, eos: CommandLine) -> None:
    """Kills, a value that appears while the pipeline lives, and values that name no table."""
    name = topic(partitions=_PARTITIONS)
    del copy.source["topics_pattern"]
    copy.source.update(topics=[name], format={"type": "json", "schema": "id BIGINT, kind STRING, amount BIGINT"})
    (sink,) = copy.spec["sinks"]
    del sink["deleted"]
    rewrite = [{"match": "kind_secret", "to": None}, {"match": "kind_(.*)", "to": r"copy_\1"}]
    sink |= {"table": "kind_${column.kind}", "rewrite": rewrite, "key": ["id"]}
    events = _Events(copy.source["bootstrap_servers"], name)
    events.send(500, "order", "refund")
    asked = eos.run(["preview", str(copy.write_spec()), "--json"], copy.environment)
    assert asked.code == 0, asked.output
    shown = json.loads(asked.output[asked.output.index("{\n") :])["tables"]
    assert {each["table"] for each in shown} == {"copy_order", "copy_refund"}
    kill_at(copy, "before-decide", "after-decide", "applying", "after-commits")
    events.send(500, "order", "return")
    kill_at(copy, "before-decide")
    events.send(40, "order", "secret", None)
    copy.catch_up()
    for kind in ("order", "refund", "return"):
        assert copy.table.execute(f"SELECT id, amount FROM copy_{kind} ORDER BY id") == sorted(
            events.of_kind[kind].items()
        )
        assert events.records[kind] > 100
    assert copy.prepared() == []
    letter = copy.spec["dead_letter"]
    reasons = [each.reason for each in drain(letter["bootstrap_servers"], letter["topic"])]
    assert sum("NULL in column kind" in reason for reason in reasons) == events.records[None] > 0
    assert sum("kind = 'secret'" in reason for reason in reasons) == events.records["secret"] > 0
    assert len(reasons) == events.records[None] + events.records["secret"]


@pytest.mark.parametrize("server", ["database", pytest.param("postgres_database", marks=pytest.mark.any_server)])
def test_many_tables_are_learned_at_once_each_once(server: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Three topics share a table, whose columns they add; the table of one does not fit, and delays no other."""
    request.node.fixturenames = [*request.node.fixturenames, "services" if server == "database" else "postgres"]
    route = Route("${topic}", (Rewrite(r"shard_\d", "shards"),))
    upsert, url = Upsert((), by_topic=True), request.getfixturevalue(server)
    tables = Tables(url, LogPlace(tmp_path / "log"), upsert, route, rejects=True).start()
    tables.execute("CREATE TABLE t07 (id CHAR(3) PRIMARY KEY)")
    names = [f"t{number:02}" for number in range(20)]
    rows = [batch(name, ["id"], [{"_offset": 0, "id": 7}], id=pa.int64()) for name in names]
    for number in range(3):
        columns = {"id": pa.int64(), f"c{number}": pa.int32()}
        rows.append(batch(f"shard_{number}", ["id"], [{"_offset": 0, "id": number, f"c{number}": number}], **columns))
    wanted = tables.write(0, [rows])
    assert len(wanted) == 23
    tables.sink.learn(wanted, tables.changes.append)
    with pytest.raises(BadRowError, match="t07"):
        tables.write(0, [[rows[7]]])
    del rows[7]
    assert tables.write(0, [rows]) == []
    tables.commit(0)
    names.remove("t07")
    assert {each.table for each in tables.changes} == {*names, "shards"}
    created = [each for each in tables.changes if each.statement.startswith("CREATE TABLE")]
    assert len(created) == len(names) + 1
    assert [tables.rows(name, "id") for name in names] == [[(7,)]] * 19
    assert tables.rows("shards", "id, c0, c1, c2") == [(0, 0, None, None), (1, None, 1, None), (2, None, None, 2)]
