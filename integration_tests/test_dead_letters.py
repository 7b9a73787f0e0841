"""Records that do not decode: each once in `dead_letter`, with its bytes, and every other one once in the sink."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from connectors.dead_letter_names import COLUMNS
from connectors.dead_letters import DeadLetter
from connectors.formats.ddl import parse_ddl
from connectors.formats.json_values import JsonFormat
from connectors.kafka.dead_letters import Replay, read_dead_letters
from connectors.kafka.settings import Connection
from connectors.kafka.sink.markers import encode, partition_of_marker
from connectors.kafka.sink.place import MARKERS, Place
from connectors.kafka.sink.producer import TransactionalProducer
from connectors.kafka.sink.target import BATCH
from connectors.kafka.source import KafkaSource
from connectors.sql.dead_letters import read_dead_letters as read_table
from integration_tests import topics
from integration_tests.conftest import TopicFactory
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.drain import Record, drain
from integration_tests.harness.kills import kill_at
from integration_tests.harness.odd_records import produce_with_client_library
from integration_tests.harness.oracle import PostgresTable, SinkTable
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.services import Services
from twophase.values import OffsetRange

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

Bad = tuple[int, int, bytes, bytes, str]
"""Partition, offset, key, value, and what its one header of the producer says."""

_BAD = (b"", b"\xff\xfe", b'{"id": "seven"', b'{"id": 1} {"id": 2}', b"[]", b"null", b'{"id": 1e99}')


class BadRecords:
    """Those that were produced to a pipeline's topic."""

    def __init__(self, bootstrap: str, pipeline: Pipeline) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._topic = pipeline.workload.topic
        self.expected: Counter[Bad] = Counter()

    def produce(self, count: int) -> None:
        """So many, with bytes of their own; returns when the broker has them."""
        for number in range(count):
            value, key = _BAD[number % len(_BAD)] + b" " * (number // len(_BAD)), f"key {number}".encode()
            partition = number % PARTITIONS

            def delivered(error: object, message: Any, key: bytes = key, value: bytes = value) -> None:
                assert error is None
                self.expected[message.partition(), message.offset(), key, value, key.decode()] += 1

            headers: list[tuple[str, str | bytes | None]] = [("trace", key)]
            self._producer.produce(self._topic, value, key, partition, headers=headers, on_delivery=delivered)
        assert self._producer.flush(60) == 0


@pytest.fixture
def bad(services: Services, pipeline: Pipeline) -> BadRecords:
    del pipeline.source["join_below"]  # as users have it: small partitions share a task
    return BadRecords(services.kafka_bootstrap, pipeline)


def _to_topic(services: Services, pipeline: Pipeline, name: str) -> None:
    pipeline.spec["dead_letter"] = {
        "connector": "kafka",
        "bootstrap_servers": services.kafka_bootstrap,
        "topic": name,
    }


def _in_topic(services: Services, name: str) -> Counter[Bad]:
    """What a reader of committed messages sees. Says of each that its headers are whole."""
    found: Counter[Bad] = Counter()
    for record in drain(services.kafka_bootstrap, name):
        told = {header: (value or b"").decode() for header, value in record.headers.items()}
        assert told["eos.source"] == "incoming"
        assert told["eos.error"]
        assert told["eos.timestamp"].startswith("20")
        assert int(told["eos.checkpoint_id"]) >= 0
        place = int(told["eos.partition"]), int(told["eos.offset"])
        found[(*place, record.key or b"", record.value or b"", told["trace"])] += 1
    return found


def _in_table(table: SinkTable) -> Counter[Bad]:
    statement = "SELECT `partition`, `offset`, `key`, value, headers FROM " + table.name
    rows = table.execute(statement)
    return Counter((p, o, key, value, key.decode()) for p, o, key, value, headers in rows if json.loads(headers))


@pytest.mark.timeout(1200)
def test_killed_around_the_second_job(
    pipeline: Pipeline, bad: BadRecords, services: Services, topic: TopicFactory, tmp_path: Path
) -> None:
    """To a topic. Nothing of it is seen before its checkpoint is decided, and nothing is ever seen twice."""
    target = topic(partitions=2)
    _to_topic(services, pipeline, target)
    for _ in range(6):
        pipeline.workload.produce(CHECKPOINT_RECORDS)
        bad.produce(5)
    for stem, seen in (("dead-letters@0", 0), ("before-decide@1", 1), ("after-decide@2", 2), ("applying@3", 3)):
        process = pipeline.start(arm=[stem])
        process.await_point(stem)
        ids = {record.headers["eos.checkpoint_id"] for record in drain(services.kafka_bootstrap, target)}
        assert len(ids) <= seen + 1, (stem, ids)
        assert _in_topic(services, target) <= bad.expected
        assert pipeline.verdict().clean
        process.kill()
    pipeline.workload.produce(CHECKPOINT_RECORDS)  # a checkpoint without bad records, too
    pipeline.catch_up()
    pipeline.assert_exact(at_least=7 * CHECKPOINT_RECORDS)
    assert bad.expected.total() == 30
    assert _in_topic(services, target) == bad.expected
    with ExitStack() as stack:
        commands = stack.enter_context(CommandLine(tmp_path))
        for command in ("doctor", "validate"):
            ended = commands.run([command, str(pipeline.write_spec())], pipeline.environment)
            assert ended.code == 0, ended.output
            assert "dead letters" in ended.output


@pytest.mark.timeout(900)
def test_to_a_table_that_the_start_makes(pipeline: Pipeline, bad: BadRecords, services: Services) -> None:
    """By two-phase commit, from a source with a column that is NOT NULL.

    A checkpoint of bad records alone; a table that is away in between makes no dead letter.
    """
    letters = SinkTable(pipeline.table.url, "letters")
    pipeline.spec["dead_letter"] = {
        "connector": "mysql",
        "url": "${env:SINK_URL}",
        "table": "letters",
        "create": "if-missing",
        "commit": "two-phase",
    }
    pipeline.source["format"]["schema"] = "id BIGINT NOT NULL, word STRING, payload STRING"
    bad.produce(100)
    bad.produce(20)
    pipeline.workload.produce(2 * CHECKPOINT_RECORDS)
    kill_at(pipeline, "dead-letters@0", "between-commits@0")
    pipeline.catch_up()
    pipeline.workload.produce(10)
    bad.produce(3)
    pipeline.table.execute(f"RENAME TABLE {pipeline.table.name} TO elsewhere")
    pipeline.start().fail("there is no table")
    pipeline.table.execute(f"RENAME TABLE elsewhere TO {pipeline.table.name}")
    pipeline.catch_up()
    pipeline.assert_exact(at_least=2 * CHECKPOINT_RECORDS + 10)
    assert bad.expected.total() == 123
    assert _in_table(letters) == bad.expected
    assert letters.prepared(pipeline.head.incarnation) == []


@pytest.mark.timeout(600)
def test_too_many_stop_the_pipeline_and_are_written_after_the_change(
    pipeline: Pipeline, bad: BadRecords, services: Services, topic: TopicFactory, tmp_path: Path
) -> None:
    """More in all than are allowed, and no task has that many. A pipeline that has run takes a dead_letter later."""
    target = topic(partitions=1)
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    bad.produce(3)
    pipeline.workload.produce(10)
    pipeline.start().fail("offset ", "dead_letter")
    _to_topic(services, pipeline, target)
    pipeline.spec["checkpoint"]["max_dead_letters"] = 2
    pipeline.start().fail("has more than 2 dead letters", "raise checkpoint.max_dead_letters")
    assert drain(services.kafka_bootstrap, target) == []
    pipeline.spec["checkpoint"]["max_dead_letters"] = 3
    pipeline.catch_up()
    pipeline.assert_exact(at_least=CHECKPOINT_RECORDS + 10)
    assert bad.expected.total() == 3
    assert _in_topic(services, target) == bad.expected
    with CommandLine(tmp_path) as commands:
        _list_and_replay(commands, pipeline, bad, services, topic(partitions=1))


def _told(commands: CommandLine, pipeline: Pipeline, *arguments: str) -> Any:
    """What `eos dead-letters` answers, as facts."""
    ended = commands.run(["dead-letters", *arguments, "--json"], pipeline.environment)
    assert ended.code == 0, ended.output
    return json.loads(ended.output)


def _list_and_replay(
    commands: CommandLine, pipeline: Pipeline, bad: BadRecords, services: Services, again: str
) -> None:
    """To a topic that is not read, one and then all; a second call has nothing left to send."""
    spec = str(pipeline.write_spec())
    told = partial(_told, commands, pipeline)
    listed = told("list", spec)["dead_letters"]
    places = [f"{each['topic']}/{each['partition']}/{each['offset']}" for each in listed]
    assert sorted(places) == sorted(f"{pipeline.workload.topic}/{p}/{o}" for p, o, *_ in bad.expected)
    assert told("replay", spec, "--offset", places[0], "--to", again)["sent"] == [places[0]]
    assert sorted(told("replay", spec, "--all", "--to", again)["sent"]) == sorted(places[1:])
    assert told("replay", spec, "--source", "incoming", "--to", again)["sent"] == []
    sent = Counter((record.key, record.value, *record.headers) for record in drain(services.kafka_bootstrap, again))
    assert sent == Counter((key, value, "trace") for _, _, key, value, _ in bad.expected)


@pytest.mark.timeout(900)
def test_rows_that_sinks_refuse(pipeline: Pipeline, bad: BadRecords, services: Services, topic: TopicFactory) -> None:
    """By two sinks that share tasks, each for its own reasons, beside records that do not decode; killed meanwhile.

    One of the sinks may still commit the checkpoint before.
    """
    target = topic(partitions=1)
    _to_topic(services, pipeline, target)
    (warehouse,) = pipeline.spec["sinks"]
    narrow = SinkTable(pipeline.table.url, "narrow")
    narrow.execute("CREATE TABLE narrow (id TINYINT, word VARCHAR(40), payload VARCHAR(80))")
    pipeline.spec["sinks"].append({**warehouse, "name": "narrow", "table": "narrow", "commit": "write-ahead-log"})
    for sink in pipeline.spec["sinks"]:
        sink["max_backlog"] = {"checkpoints": 1}
    pipeline.table.execute(f"ALTER TABLE {pipeline.table.name} MODIFY word VARCHAR(12)")
    pipeline.workload.produce(120)
    pipeline.workload.produce_words("fits", "is much too long", "fits, too", "is too long, too")
    pipeline.workload.produce(20)  # ids from 124 on: 16 of them do not fit into a TINYINT
    bad.produce(2)
    for stem in ("before-decide", "after-decide"):
        process = pipeline.start(arm=[stem])
        process.await_point(stem)
        assert narrow.count() == 0
        process.kill()
    pipeline.catch_up()
    long = Counter(row for row in pipeline.workload.expected if row[1] is not None and len(row[1]) > 12)
    large = Counter(row for row in pipeline.workload.expected if row[0] > 127)
    assert (long.total(), large.total()) == (2, 16)
    assert pipeline.table.rows() == pipeline.workload.expected - long
    assert narrow.rows() == pipeline.workload.expected - large
    refused: dict[str, Counter[Any]] = {"warehouse": Counter(), "narrow": Counter()}
    for record in drain(services.kafka_bootstrap, target):
        if "eos.sink" in record.headers:
            row = record.json
            refused[(record.headers["eos.sink"] or b"").decode()][row["id"], row["word"], row["payload"]] += 1
        else:
            assert (record.headers["eos.source"], record.headers["eos.offset"] is not None) == (b"incoming", True)
            refused.setdefault("", Counter())[record.key] += 1
    assert refused["warehouse"] == long
    assert refused["narrow"] == large
    assert refused[""] == Counter([b"key 0", b"key 1"])
    assert pipeline.prepared() == []


@pytest.mark.timeout(600)
def test_what_goes_between_the_two_readers_is_missed_in_a_second_try_too(
    pipeline: Pipeline, bad: BadRecords, services: Services
) -> None:
    """Retention takes half of what was put aside. All tasks that read had counted in the first try already, whose rows
    one of those refused that write."""
    letters = SinkTable(pipeline.table.url, "letters")
    (warehouse,) = pipeline.spec["sinks"]
    pipeline.spec["dead_letter"] = {
        **{name: warehouse[name] for name in ("connector", "url", "commit")},
        "table": "letters",
        "create": "if-missing",
    }
    pipeline.spec["restart"] = {"strategy": "none"}
    pipeline.source["join_below"] = 0
    pipeline.source["fail_on_data_loss"] = False
    pipeline.table.execute(f"ALTER TABLE {pipeline.table.name} MODIFY word VARCHAR(12), ADD PRIMARY KEY (id)")
    pipeline.workload.produce(20)
    pipeline.workload.produce_words("is much too long")
    bad.produce(10)
    last = max(offset for partition, offset, *_ in bad.expected if partition == 0)
    process = pipeline.start(arm=["dead-letters"])
    process.await_point("dead-letters")
    topics.delete_records(services.kafka_bootstrap, {f"{pipeline.workload.topic}/0": last + 1})
    process.release("dead-letters")
    process.fail("is written again, without the rows", "10 records were put aside, and 5 were found again")
    assert (pipeline.table.count(), letters.count()) == (0, 0)
    assert pipeline.prepared() == []


@pytest.mark.timeout(900)
def test_records_whose_rows_are_refused(
    pipeline: Pipeline, services: Services, postgres_database: str, topic: TopicFactory, tmp_path: Path
) -> None:
    """Into a table of PostgreSQL, with the bytes that they had; killed meanwhile. Several rows are one record's.

    Beside them a record whose error quotes what PostgreSQL takes in no text.
    """
    pipeline.spec["dead_letter"] = {
        "connector": "postgresql",
        "url": postgres_database,
        "table": "letters",
        "create": "if-missing",
        "commit": "two-phase",
    }
    pipeline.source["format"]["schema"] += ", due DATE"
    place = "_topic, _partition, _offset"
    pipeline.spec["transforms"] = [
        {"name": "rows", "sql": f"SELECT id, word, payload, {place} FROM incoming"},
        {"name": "twice", "sql": f"SELECT id, explode(array('a', 'b')) AS word, payload, {place} FROM rows"},
    ]
    narrow, letters = SinkTable(pipeline.table.url, "narrow"), PostgresTable(postgres_database, "letters")
    narrow.execute("CREATE TABLE narrow (id TINYINT, word VARCHAR(40), payload VARCHAR(80))")
    (warehouse,) = pipeline.spec["sinks"]
    pipeline.spec["sinks"].append({**warehouse, "name": "narrow", "from": "twice", "table": "narrow"})
    pipeline.table.execute(f"ALTER TABLE {pipeline.table.name} MODIFY word VARCHAR(12)")
    pipeline.workload.produce(120)
    pipeline.workload.produce_words("fits", "is much too long")
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
    value, name = b'{"payload": "p", "word": "w" ,"id": 1000}', pipeline.workload.topic
    producer.produce(name, value, b"k\xff", 0, headers=[("trace", b"\xff")], timestamp=1_700_000_000_123)
    producer.produce(name, b'{"id": 7, "due": "2026\\u0000"}', None, 1)
    assert producer.flush(60) == 0
    pipeline.workload.expected[1000, "w", "p"] += 1
    for stem in ("dead-letters", "before-decide", "after-decide"):
        process = pipeline.start(arm=[stem])
        process.await_point(stem)
        assert narrow.count() == 0
        process.kill()
    pipeline.catch_up()
    (long,) = (row for row in pipeline.workload.expected if row[1] == "is much too long")
    assert pipeline.table.rows() == pipeline.workload.expected - Counter([long])
    assert narrow.count() == 2 * 122
    assert pipeline.prepared() == []
    assert letters.prepared(pipeline.head.incarnation) == []
    with CommandLine(tmp_path) as commands:
        _list_and_replay_refused(commands, pipeline, services, topic(partitions=1), long, value)


def _list_and_replay_refused(
    commands: CommandLine, pipeline: Pipeline, services: Services, again: str, long: tuple[Any, ...], value: bytes
) -> None:
    """Only where a sink is named, and of the rows of one record that record once."""
    spec = str(pipeline.write_spec())
    told = partial(_told, commands, pipeline)
    listed = told("list", spec)["dead_letters"]
    assert Counter(each["sink"] for each in listed) == {"warehouse": 1, "narrow": 2, None: 1}
    assert {each["source"] for each in listed} == {"incoming"}
    (bad,) = (each for each in listed if each["sink"] is None)
    assert "2026\\x00" in bad["error"]
    (row,) = told("list", spec, "--sink", "warehouse")["dead_letters"]
    assert tuple(json.loads(base64.b64decode(row["value"])).values()) == long
    of_one = told("list", spec, "--sink", "narrow")["dead_letters"]
    for each in of_one:
        assert base64.b64decode(each["value"]) == value
        assert (each["key"], each["headers"]) == ("a/8=", [["trace", "/w=="]])
        assert each["timestamp"].startswith("2023-11-14T22:13:20.123")
    assert sorted('"word": "a"' in each["error"] for each in of_one) == [False, True]
    bad_place = f"{bad['topic']}/{bad['partition']}/{bad['offset']}"
    assert told("replay", spec, "--all", "--to", again)["sent"] == [bad_place]
    ended = commands.run(["dead-letters", "replay", spec, "--sink", "narrow", "--to", again], pipeline.environment)
    assert "Every sink gets these records, not only narrow" in ended.output
    assert "1 of 1 records were resent" in ended.output
    assert told("replay", spec, "--sink", "narrow", "--to", again)["sent"] == []
    sent = [(record.key, record.value, record.headers) for record in drain(services.kafka_bootstrap, again)]
    assert sent[1:] == [(b"k\xff", value, {"trace": b"\xff"})]
    assert len(sent) == 2


@pytest.mark.timeout(600)
def test_a_row_that_names_two_places_goes_as_it_is(pipeline: Pipeline, services: Services, topic: TopicFactory) -> None:
    """Two columns have one name: nothing asks for them, as the sink does not."""
    target = topic(partitions=1)
    _to_topic(services, pipeline, target)
    twice = "SELECT id, word, payload, _topic, _partition, _offset, 'elsewhere' AS _topic FROM incoming"
    pipeline.spec["transforms"] = [{"name": "rows", "sql": twice}]
    pipeline.table.execute(f"ALTER TABLE {pipeline.table.name} MODIFY word VARCHAR(12)")
    pipeline.workload.produce_words("fits", "is much too long")
    pipeline.catch_up()
    (long,) = (row for row in pipeline.workload.expected if row[1] == "is much too long")
    assert pipeline.table.rows() == pipeline.workload.expected - Counter([long])
    (letter,) = drain(services.kafka_bootstrap, target)
    assert tuple(letter.json.values()) == long
    assert "eos.source" not in letter.headers


@pytest.mark.timeout(600)
def test_a_pipeline_that_keeps_state_takes_a_dead_letter_later(
    pipeline: Pipeline, services: Services, topic: TopicFactory
) -> None:
    """What is kept in the state stays the same: nothing more of the rows than before."""
    pipeline.spec["sources"] = [pipeline.source, {**pipeline.source, "name": "again"}]
    joined = "SELECT l.id, l.word, r.payload, l._topic, l._partition, l._offset"
    pipeline.spec["transforms"] = [{"name": "rows", "sql": f"{joined} FROM incoming l JOIN again r ON l.id = r.id"}]
    pipeline.workload.produce(20)
    pipeline.catch_up()
    _to_topic(services, pipeline, topic(partitions=1))
    pipeline.workload.produce(20)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=40)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["table", "topic"])
def test_records_of_odd_metadata(pipeline: Pipeline, services: Services, topic: TopicFactory, kind: str) -> None:
    """A time in nanoseconds, one in microseconds, and a header's name that is not UTF-8, where a step reads both."""
    name, target = topic(message_timestamp_after_max_ms=str(2**63 - 1)), topic()
    pipeline.source["topics"] = [name]
    pipeline.spec["transforms"][0]["sql"] += " WHERE _timestamp > '1999-12-31' AND size(_headers) > 0"
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
    values = [b'{"id": %d, "word": "w", "payload": "p"}' % number for number in range(5)]
    for number, time_ms in enumerate([1_700_000_000_123, 1_700_000_000_123_456_789, 1_700_000_000_123_456]):
        producer.produce(name, values[number], timestamp=time_ms, headers=[("h", b"1")])
    assert producer.flush(60) == 0
    produce_with_client_library(services.kafka_bootstrap, name, b"\xff", values[3])
    produce_with_client_library(services.kafka_bootstrap, name, b"h", values[4])
    if kind == "table":
        where = f"topic {name}, partition 0, offset 1: its timestamp, 1700000000123456789 ms"
        pipeline.start().fail(where, "let no step use _timestamp")
        sink = {"connector": "mysql", "url": "${env:SINK_URL}", "table": "letters", "create": "if-missing"}
        pipeline.spec["dead_letter"] = {**sink, "commit": "two-phase"}
    else:
        _to_topic(services, pipeline, target)
    pipeline.catch_up()
    assert pipeline.table.rows() == Counter([(0, "w", "p"), (4, "w", "p")])
    if kind == "table":
        letters = SinkTable(pipeline.table.url, "letters")
        statement = "SELECT `offset`, value, error, timestamp IS NULL, headers IS NULL FROM letters ORDER BY `offset`"
        found = letters.execute(statement)
    else:
        found = [_as_row(each) for each in drain(services.kafka_bootstrap, target)]
    assert [row[:2] for row in found] == [(number, values[number]) for number in (1, 2, 3)]
    assert [(bool(row[3]), bool(row[4])) for row in found] == [(True, False), (True, False), (False, True)]
    assert ["its timestamp, 1700000000123456" in row[2] for row in found] == [True, True, False]
    assert "its headers cannot be read" in found[2][2]
    assert pipeline.prepared() == []
    if kind == "topic":
        _read_without_them(pipeline, services, name, target)


def _read_without_them(pipeline: Pipeline, services: Services, name: str, target: str) -> None:
    """Where no step uses them any more only what does not decode is bad, also when it is read again."""
    pipeline.spec["transforms"][0]["sql"] = "SELECT id, word, payload FROM incoming"
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
    for value in (b'{"id": 5, "word": "w", "payload": "p"}', b"{"):
        producer.produce(name, value, timestamp=1_700_000_000_123_456_789)
    assert producer.flush(60) == 0
    pipeline.catch_up()
    assert pipeline.table.rows() == Counter([(number, "w", "p") for number in (0, 4, 5)])
    offset, value, error, is_timeless, _ = _as_row(drain(services.kafka_bootstrap, target)[-1])
    assert (offset, value, is_timeless) == (6, b"{", True)
    assert "not valid JSON" in error
    assert "its timestamp, 1700000000123456789 ms" in error


def _as_row(record: Record) -> tuple[Any, ...]:
    """Of a letter in a topic: offset, value, error, whether it lacks a time, and the header."""
    told = {name: (value or b"").decode() for name, value in record.headers.items()}
    return int(told["eos.offset"]), record.value, told["eos.error"], "eos.timestamp" not in told, "h" not in told


@pytest.mark.timeout(120)
def test_a_record_of_a_topic_that_was_made_again_is_sent(
    services: Services, topic: TopicFactory, tmp_path: Path, eos: CommandLine
) -> None:
    """It has the place of one that was sent; what a reset reads once more is the same record still."""
    name, again = topic(), topic()
    source = {"name": "s", "connector": "kafka", "bootstrap_servers": services.kafka_bootstrap, "topics": [name]}
    table = {"connector": "sqlite", "path": str(tmp_path / "bad.db"), "table": "bad", "commit": "write-ahead-log"}
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        json.dumps(
            {
                "pipeline": name,
                "checkpoint": {"location": str(tmp_path / "state")},
                "sources": [{**source, "format": {"type": "json", "schema": "id BIGINT"}}],
                "sinks": [{**table, "name": "out", "from": "s", "table": "t"}],
                "dead_letter": table,
            }
        )
    )

    def replayed() -> Any:
        ended = eos.run(["dead-letters", "replay", str(spec), "--all", "--to", again, "--json"], {})
        assert ended.code == 0, ended.output
        return json.loads(ended.output)["sent"]

    with closing(sqlite3.connect(tmp_path / "bad.db", isolation_level=None)) as database:
        database.execute("CREATE TABLE bad (" + ", ".join(f'"{each}"' for each in COLUMNS) + ")")
        for life, value in enumerate([b"first", b"second"]):
            producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
            producer.produce(name, value, partition=0)
            assert producer.flush(60) == 0
            reader = KafkaSource(
                "s",
                services.kafka_bootstrap,
                (name,),
                JsonFormat(parse_ddl("id BIGINT")),
                connect_timeout_s=20.0 + life,
            )  # a client of its own, which knows nothing of the first topic
            (found,) = (
                row for batch in reader.bad_records(OffsetRange(f"{name}/0", 0, 1)) for row in batch.to_pylist()
            )
            letter = {**found, "timestamp": found["timestamp"].isoformat(), "checkpoint_id": life}
            for sent in ([f"{name}/0/0"], []):
                database.execute(f"INSERT INTO bad VALUES ({', '.join(f':{each}' for each in COLUMNS)})", letter)
                assert replayed() == sent
            if life == 0:
                topics.delete(services.kafka_bootstrap, [name])
                topics.create(services.kafka_bootstrap, name, 1, {})
    assert [each.value for each in drain(services.kafka_bootstrap, again)] == [b"first", b"second"]


@pytest.mark.timeout(120)
def test_a_message_that_nobody_can_read_hides_no_letter(services: Services, topic: TopicFactory) -> None:
    """Of somebody else, in the topic of the dead letters."""
    target = topic()
    produce_with_client_library(services.kafka_bootstrap, target, b"\xff")
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
    own = {"eos.source": b"s", "eos.topic": b"t", "eos.partition": b"0", "eos.offset": b"7", "eos.error": b"bad"}
    producer.produce(target, b"{", headers=[*own.items(), ("eos.checkpoint_id", b"3")])
    assert producer.flush(60) == 0
    (letter,) = read_dead_letters(services.kafka_bootstrap, target, {})
    assert (letter.place, letter.value) == ("t/0/7", b"{")


@pytest.mark.timeout(120)
def test_a_replay_that_died_is_made_again_as_a_whole(services: Services, topic: TopicFactory) -> None:
    """What it had sent was never committed; and one whose answer was lost is known by its markers."""
    again = topic(partitions=2)
    keys = [None if number % 2 else b"k" for number in range(9)]
    letters = [
        DeadLetter("s", None, "t", 0, number, None, key, b"%d" % number, [("h", None)], "bad", 3)
        for number, key in enumerate(keys)
    ]
    replay = Replay(f"replay-{again}", services.kafka_bootstrap, {}, again)
    place = Place(Connection(services.kafka_bootstrap, group_id="g"), again)
    dead = TransactionalProducer(place, f"eos.{replay.pipeline}.replay", BATCH)
    dead.begin()
    dead.produce(lambda handle: handle.produce(again, b"never seen"), 1, 10)
    assert replay.send(letters[:4]) == letters[:4]
    assert replay.send([*letters[:6], letters[5]]) == letters[4:6]
    assert replay.send(letters) == letters[6:]
    assert replay.send(letters) == []
    found = Counter((each.key, each.value, *each.headers.items()) for each in drain(services.kafka_bootstrap, again))
    assert found == Counter((each.key, each.value, ("h", None)) for each in letters)
    dead.close()


@pytest.mark.timeout(120)
def test_a_record_that_two_sources_read_is_sent_once(services: Services, topic: TopicFactory) -> None:
    """Also if version 0.2.0 has sent it, whose markers name the source."""
    again = topic(partitions=1)
    first, second = (DeadLetter("a", None, "t", 0, number, None, b"k", b"v", [], "bad", 3) for number in (1, 2))
    replay = Replay(f"replay-{again}", services.kafka_bootstrap, {}, again)
    assert replay.send([first]) == [first]
    assert replay.send([replace(first, source="b")]) == []
    producer, key = Producer({"bootstrap.servers": services.kafka_bootstrap}), replay._key_before(second)
    producer.produce(MARKERS, encode({"checkpoint_id": 3}), key.encode(), partition_of_marker(key))
    assert producer.flush(60) == 0
    assert replay.send([second]) == []
    assert [each.value for each in drain(services.kafka_bootstrap, again)] == [b"v"]


def test_a_letter_in_a_table_is_the_same_whatever_the_time_zone_of_the_session(database: str) -> None:
    """Else it would be sent once more where the server's changes."""
    kinds = {"checkpoint_id": "BIGINT", "offset": "BIGINT", "partition": "INT", "timestamp": "TIMESTAMP NULL"}
    columns = ", ".join(f"`{each}` {kinds.get(each, 'BLOB')}" for each in COLUMNS)
    table = SinkTable(database, "bad")
    table.execute(f"CREATE TABLE bad ({columns})")
    table.execute("INSERT INTO bad (checkpoint_id, error, `timestamp`) VALUES (1, 'bad', FROM_UNIXTIME(1700000000))")
    for zone in ("-03:30", "%2B00:00", "%2B02:00"):
        (letter,) = read_table(f"{database}?init_command=SET time_zone = '{zone}'", "bad", {})
        assert letter.timestamp == "2023-11-14T22:13:20"
