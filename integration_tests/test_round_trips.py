"""A value of any type goes through Kafka into each database as it is, or its record is bad: never altered."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy
from confluent_kafka import Producer
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from connectors.formats import ddl
from connectors.kafka.source import KafkaSource
from integration_tests.conftest import TopicFactory
from integration_tests.harness.command_line import CommandLine
from integration_tests.round_trips.columns import COLUMNS, REFUSED, Column, is_stored
from integration_tests.round_trips.databases import Table, rows_of, table_in
from integration_tests.round_trips.writers import WRITERS, RecordWriter, Row
from integration_tests.services import Services
from integration_tests.services.registry_native import SchemaRegistry
from tests.searches import examples
from twophase.values import OffsetRange

pytestmark = [pytest.mark.any_server]

_SETTINGS = settings(
    deadline=None, suppress_health_check=list(HealthCheck), max_examples=examples(12), phases=[Phase.generate]
)
_DATABASES: Final = ("mysql", "postgresql", "sqlite")
_NOT_CARRIED: Final[Mapping[str, set[str]]] = {
    "avro of the sink": set(),
    "avro of fastavro": {"TINYINT", "SMALLINT"},  # Avro has no such types
    "json of the sink": {"BINARY", "STRUCT"},  # of which one has a BINARY: JSON has no bytes
    "json of python": set(),
    "protobuf of google": {"TINYINT", "SMALLINT", "DATE", "TIMESTAMP_NTZ"},  # Protobuf has no such types
}


def test_each_type_has_a_round_trip_in_each_format() -> None:
    """A type that is added to the schemas of sources fails here until it has one."""
    named = {str(parsed) for parsed in ddl._SIMPLE.values()}
    assert {str(each.arrow) for each in COLUMNS.values() if each.base not in (*ddl._NESTED, "DECIMAL")} == named
    every = {each.base for each in COLUMNS.values()}
    assert every - set(ddl._SIMPLE) == {*ddl._NESTED, "DECIMAL"}
    assert WRITERS.keys() == _NOT_CARRIED.keys()


class Trip:
    """Records of one writer in one topic, and the table that they are copied into."""

    def __init__(self, services: Services, topic: str, writer: RecordWriter, table: Table) -> None:
        self._topic = topic
        self._writer = writer
        self._table = table
        self._producer = Producer({"bootstrap.servers": services.kafka_bootstrap, "linger.ms": 0})
        self._source = KafkaSource(
            *("in", services.kafka_bootstrap, (topic,), writer.format()), on_bad_record="skip"
        )  # as tasks read it
        self.next_id = 0

    def copy(self, values: Sequence[tuple[str, Any]]) -> None:
        """Copy a row for each value, and compare all of them."""
        rows: list[Row] = [(self.next_id + at, name, value) for at, (name, value) in enumerate(values)]
        first, self.next_id = self.next_id, self.next_id + len(rows)
        for value in self._writer.encode(rows):
            self._producer.produce(self._topic, value, partition=0)
        assert self._producer.flush(30) == 0
        undecoded: list[int] = []
        batches = self._source.read([OffsetRange(f"{self._topic}/0", first, self.next_id)], undecoded.append)
        refused = self._table.write(batches)
        found = self._table.rows(self._writer.columns, first)
        database = self._table.engine.dialect.name
        expected, bad, not_stored = {}, 0, 0
        for number, name, value in rows:
            column = self._writer.columns[name]
            wanted = column.expected(value)
            if wanted is REFUSED:
                bad += 1
            elif is_stored(database, column, wanted):
                expected[number] = {**self._writer.absent, name: wanted}
            else:
                not_stored += 1
        for number, wanted in expected.items():
            assert number in found, ("a row is missing", wanted)
            assert _is_same(found[number], wanted), (found[number], wanted)
        assert {at: found[at] for at in found.keys() - expected.keys()} == {}, "rows that are to be refused"
        assert (sum(undecoded), refused) == (bad, not_stored)


def _is_same(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether two rows are equal, with NaN as one value."""
    return _without_nan(found) == _without_nan(wanted)


def _without_nan(row: dict[str, Any]) -> dict[str, Any]:
    return {name: "NaN" if isinstance(each, float) and math.isnan(each) else each for name, each in row.items()}


def _edges(writer: RecordWriter) -> list[tuple[str, Any]]:
    return [(name, value) for name, each in writer.columns.items() for value in each.edges]


def _values(columns: Mapping[str, Column]) -> st.SearchStrategy[list[tuple[str, Any]]]:
    one = st.one_of([st.tuples(st.just(name), each.values) for name, each in columns.items()])
    return st.lists(one, min_size=30, max_size=60)


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of the test's own, of the kind that is the fixture's parameter."""
    fixture = {"mysql": "database", "postgresql": "postgres_database"}.get(request.param)
    if fixture is None:
        return f"sqlite:///{tmp_path / 't.db'}"
    found: str = request.getfixturevalue(fixture)
    return found


_each_database = pytest.mark.parametrize("url", _DATABASES, indirect=True)
_each_writer = pytest.mark.parametrize("name", WRITERS)


@pytest.mark.registry
@pytest.mark.timeout(300)
@_each_database
@_each_writer
def test_a_value_is_exact_or_its_record_is_bad(
    name: str, url: str, services: Services, topic: TopicFactory, registry: SchemaRegistry, tmp_path: Path
) -> None:
    where = topic()
    writer = WRITERS[name](registry.url, where)
    assert {each.base for each in COLUMNS.values()} - {each.base for each in writer.columns.values()} == _NOT_CARRIED[
        name
    ]
    with table_in(url, tmp_path, writer.format().schema) as table:
        trip = Trip(services, where, writer, table)
        trip.copy(_edges(writer))

        @_SETTINGS
        @given(_values(writer.columns))
        def check(values: list[tuple[str, Any]]) -> None:
            trip.copy(values)

        check()
        assert trip.next_id > 100


@pytest.mark.registry
@pytest.mark.in_turns
@pytest.mark.timeout(600)
@_each_database
@pytest.mark.parametrize("name", ["avro of fastavro", "json of python", "protobuf of google"])
def test_a_pipeline_copies_values_as_they_are(
    name: str,
    url: str,
    services: Services,
    topic: TopicFactory,
    registry: SchemaRegistry,
    tmp_path: Path,
    eos: CommandLine,
) -> None:
    """`eos run` with Spark: all values that the database has, and the bad records and rows in dead letters."""
    where, letters = topic(), topic()
    writer = WRITERS[name](registry.url, where)
    database = sqlalchemy.make_url(url).get_backend_name()
    rows: list[Row] = [(number, *value) for number, value in enumerate(_edges(writer))]
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
    for record in writer.encode(rows):
        producer.produce(where, record)
    assert producer.flush(30) == 0
    kafka = {"connector": "kafka", "bootstrap_servers": services.kafka_bootstrap}
    target = {"path": url.removeprefix("sqlite:///")} if database == "sqlite" else {"url": "${env:SINK_URL}"}
    sink = {"name": "copy", "connector": database, **target, "table": "t", "create": "if-missing", "from": "rows"}
    sink["commit"] = "write-ahead-log" if database == "sqlite" else "two-phase"
    columns = ", ".join(["id", *writer.columns])
    spec = {
        "pipeline": f"trips-{where}",
        "sources": [
            {"name": "incoming", **kafka, "topics": [where], "format": writer.entry, "on_bad_record": "dead-letter"}
        ],
        "transforms": [{"name": "rows", "sql": f"SELECT {columns} FROM incoming"}],
        "sinks": [sink],
        "checkpoint": {"location": "./checkpoints", "interval": "100ms"},
        "spark": {"master": "local[2]"},
        "dead_letter": {**kafka, "topic": letters},
        "restart": {"strategy": "none"},
    }
    path = tmp_path / "trips.yaml"
    path.write_text(json.dumps(spec))
    ended = eos.run(["run", str(path), "--until-caught-up"], {"SINK_URL": url})
    assert ended.code == 0, ended.output[-3_000:]
    expected = {}
    for number, column, value in rows:
        wanted = writer.columns[column].expected(value)
        if wanted is not REFUSED and is_stored(database, writer.columns[column], wanted):
            expected[number] = {**writer.absent, column: wanted}
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    found = rows_of(engine, writer.columns)
    engine.dispose()
    assert found.keys() == expected.keys()
    assert all(_is_same(found[number], wanted) for number, wanted in expected.items())
