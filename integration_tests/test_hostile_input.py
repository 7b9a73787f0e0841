"""What an attacker, or a Monday, puts in: names, sizes, emptiness and times. Correct rows or one clear error each."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence

import pytest
from confluent_kafka import Producer

from integration_tests import topics
from integration_tests.harness.command_line import CommandLine, Ended
from integration_tests.harness.pipeline import Pipeline
from integration_tests.services import Services

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 1000
_MB = 2**20


@pytest.fixture(scope="module")
def eos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    with CommandLine(tmp_path_factory.mktemp("command-line")) as command_line:
        yield command_line


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandLine]:
    """A machine whose clocks change: Python, Java and Spark's workers are all in Berlin."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    with CommandLine(tmp_path_factory.mktemp("berlin")) as command_line:
        yield command_line


def _run(pipeline: Pipeline, eos: CommandLine) -> Ended:
    pipeline.spec["restart"] = {"strategy": "none"}
    return eos.run(["run", str(pipeline.write_spec()), "--until-caught-up"], pipeline.environment)


def _succeeds(pipeline: Pipeline, eos: CommandLine) -> None:
    ended = _run(pipeline, eos)
    assert ended.code == 0, ended.output
    assert pipeline.prepared() == []


def _fails(pipeline: Pipeline, eos: CommandLine, *fragments: str) -> None:
    """One error with a remedy, and nothing left prepared."""
    ended = _run(pipeline, eos)
    errors = [line for line in ended.output.splitlines() if line.startswith("error:")]
    assert (ended.code, len(errors), "Traceback" in ended.output) == (1, 1, False), ended.output
    for fragment in (*fragments, "  remedy: "):
        assert fragment in ended.output, (fragment, ended.output)
    assert pipeline.prepared() == []


def _produce(pipeline: Pipeline, values: Sequence[bytes | None], **settings: str | int) -> None:
    producer = Producer({"bootstrap.servers": pipeline.source["bootstrap_servers"], **settings})
    failures: list[object] = []
    for number, value in enumerate(values):
        producer.produce(
            pipeline.source["topics"][0],
            value,
            partition=number % 2,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert (producer.flush(120), failures) == (0, [])


def _table(pipeline: Pipeline, columns: str, schema: str, select: str) -> None:
    """A target with these columns, a JSON schema, and the step between them."""
    pipeline.table.execute("DROP TABLE records")
    pipeline.table.execute(f"CREATE TABLE records ({columns}) ENGINE = InnoDB")
    pipeline.source["format"] = {"type": "json", "schema": schema}
    pipeline.spec["transforms"][0]["sql"] = f"SELECT {select} FROM incoming"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name",
    ["a`b", "semi;colon' OR '1'='1", "DROP TABLE records; --", "100%s %(x)s", "über 中", "select", "a.b.c", "x" * 64],
)
def test_hostile_names_of_topics_tables_and_columns(
    pipeline: Pipeline, eos: CommandLine, services: Services, name: str
) -> None:
    topic = f"eos-{secrets.token_hex(5)}.._-." + "_" * 220
    topics.create(services.kafka_bootstrap, topic, 2, {})
    try:
        table = "`" + name.replace("`", "``") + "`"
        asked = table.replace("%", "%%")  # the driver takes statements for format strings
        pipeline.table.execute(f"CREATE TABLE {asked} (id BIGINT PRIMARY KEY, {asked} VARCHAR(40)) ENGINE = InnoDB")
        pipeline.source["topics"] = [topic]
        pipeline.spec["sinks"][0] |= {"table": name, "name": name}
        pipeline.spec["pipeline"] = f"{name} {topic}"[:200]
        pipeline.spec["transforms"][0]["sql"] = f"SELECT id, word AS {table} FROM incoming"
        values = [json.dumps({"id": n, "word": f"{name}{n}"[-40:]}).encode() for n in range(_RECORDS)]
        _produce(pipeline, values)
        _succeeds(pipeline, eos)
        found = pipeline.table.execute(f"SELECT id, {asked} FROM {asked}")
        assert sorted(found) == [(n, f"{name}{n}"[-40:]) for n in range(_RECORDS)]
        assert pipeline.table.count() == 0, "another table was written to"
    finally:
        topics.delete(services.kafka_bootstrap, [topic])


@pytest.mark.timeout(600)
def test_a_record_of_20_mb(pipeline: Pipeline, eos: CommandLine, services: Services) -> None:
    """A row, or one error where the server's packets are too small for it; and the records around it all the same."""
    topic = f"eos-{secrets.token_hex(5)}"
    topics.create(services.kafka_bootstrap, topic, 2, {"max.message.bytes": str(30 * _MB)})
    try:
        pipeline.source["topics"] = [topic]
        _table(pipeline, "id BIGINT, word LONGTEXT", "id BIGINT, word STRING", "id, word")
        large = "ü" * (10 * _MB)  # 20 MB of UTF-8
        words = ["before", large, "after", "last"]
        values = [json.dumps({"id": n, "word": word}, ensure_ascii=False).encode() for n, word in enumerate(words)]
        _produce(pipeline, values, **{"message.max.bytes": 30 * _MB})
        packet = int(pipeline.table.execute("SELECT @@max_allowed_packet")[0][0])
        if packet < 21 * _MB:
            ended = _run(pipeline, eos)
            if ended.code:
                assert (ended.code, ended.output.count("error: "), pipeline.table.count()) == (1, 1, 0), ended.output
                return
        else:
            _succeeds(pipeline, eos)
        found = pipeline.table.execute("SELECT id, CHAR_LENGTH(word), SHA2(word, 256) FROM records ORDER BY id")
        digests = [hashlib.sha256(word.encode()).hexdigest() for word in words]
        assert found == [(n, len(word), digest) for n, (word, digest) in enumerate(zip(words, digests, strict=True))]
    finally:
        topics.delete(services.kafka_bootstrap, [topic])


@pytest.mark.timeout(600)
def test_a_topic_of_empty_and_null_values(pipeline: Pipeline, eos: CommandLine) -> None:
    _produce(pipeline, [None, b"", b"", None] * (_RECORDS // 4))
    _table(pipeline, "id BIGINT, word TEXT", "id BIGINT, word STRING", "id, word")
    _fails(pipeline, eos, "partition ", "empty value", "on_bad_record: skip")
    assert pipeline.table.count() == 0
    pipeline.source["on_bad_record"] = "skip"
    _succeeds(pipeline, eos)  # a null value is a tombstone: a row of nulls; an empty one is no JSON
    counted = "SELECT COUNT(*), SUM(id IS NULL AND word IS NULL) FROM records"
    assert [tuple(map(int, row)) for row in pipeline.table.execute(counted)] == [(_RECORDS // 2, _RECORDS // 2)]

    pipeline.table.execute("TRUNCATE records")
    pipeline.spec["pipeline"] += "-text"
    pipeline.spec["checkpoint"]["location"] = "./text"
    pipeline.source["format"] = {"type": "string"}
    pipeline.spec["transforms"][0]["sql"] = "SELECT value AS word FROM incoming"
    _succeeds(pipeline, eos)
    counted = "SELECT COUNT(*), SUM(word = ''), SUM(word IS NULL) FROM records"
    half = _RECORDS // 2
    assert [tuple(map(int, row)) for row in pipeline.table.execute(counted)] == [(_RECORDS, half, half)]


@pytest.mark.timeout(600)
def test_columns_that_are_missing_generated_or_have_a_default(pipeline: Pipeline, eos: CommandLine) -> None:
    columns = (
        "n INT AUTO_INCREMENT PRIMARY KEY, id BIGINT NOT NULL, twice BIGINT GENERATED ALWAYS AS (id * 2) STORED,"
        " word VARCHAR(9) NOT NULL DEFAULT 'unset', seen TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),"
        " needed INT NOT NULL"
    )
    _table(pipeline, columns, "id BIGINT, word STRING", "id, id AS twice, id AS nowhere")
    _produce(pipeline, [b'{"id": %d}' % n for n in range(_RECORDS)])
    _fails(
        pipeline,
        eos,
        "column 'nowhere' is missing in the table",
        "'twice' of the table is generated",
        "'needed' of the table",
    )
    pipeline.table.execute("ALTER TABLE records ALTER needed SET DEFAULT 7")
    pipeline.spec["transforms"][0]["sql"] = "SELECT id, word FROM incoming"
    _fails(pipeline, eos, "'word'", "NULL")  # a default is for a column that is not given, not for a NULL
    assert pipeline.table.count() == 0
    pipeline.spec["transforms"][0]["sql"] = "SELECT id FROM incoming"
    _succeeds(pipeline, eos)
    found = pipeline.table.execute("SELECT id, twice, word, needed FROM records WHERE seen IS NOT NULL")
    assert sorted(found) == [(n, 2 * n, "unset", 7) for n in range(_RECORDS)]


_MOMENTS: Mapping[str, str] = {  # as produced: as the column must show it, in UTC
    "2024-03-31T02:30:00": "2024-03-31 02:30:00.000000",  # there is no such time in Berlin
    "2024-03-31T01:30:00": "2024-03-31 01:30:00.000000",
    "2024-10-27T02:30:00": "2024-10-27 02:30:00.000000",  # and there is this one twice
    "2024-10-27T02:30:00+02:00": "2024-10-27 00:30:00.000000",
    "2024-10-27T02:30:00+01:00": "2024-10-27 01:30:00.000000",
    "2024-12-31T23:59:59.999999Z": "2024-12-31 23:59:59.999999",
    "1970-01-01T00:00:01": "1970-01-01 00:00:01.000000",
    "2038-01-19T03:14:07": "2038-01-19 03:14:07.000000",
}
_FAR: Mapping[str, str] = {
    "0001-01-01T00:00:00": "0001-01-01 00:00:00.000000",
    "9999-12-31T23:59:59.999999": "9999-12-31 23:59:59.999999",
    "1582-10-10T12:00:00": "1582-10-10 12:00:00.000000",  # one of the days that the Pope left out
    "1893-03-31T23:59:59.5": "1893-03-31 23:59:59.500000",  # Berlin kept its own sun until the day after
    "1969-12-31T23:59:59.999999": "1969-12-31 23:59:59.999999",
}


@pytest.mark.timeout(600)
def test_times_are_what_was_sent_whatever_the_clocks_of_the_machine(pipeline: Pipeline, elsewhere: CommandLine) -> None:
    kinds = "id BIGINT, plain DATETIME(6), day DATE, stamp TIMESTAMP(6) NULL"
    _table(
        pipeline,
        kinds,
        "id BIGINT, at TIMESTAMP, near BOOLEAN",
        "id, at AS plain, to_date(at) AS day, CASE WHEN near THEN at END AS stamp",
    )
    sent = [*_MOMENTS, *_FAR]
    _produce(
        pipeline,
        [json.dumps({"id": n, "at": at, "near": at in _MOMENTS}).encode() for n, at in enumerate(sent)],
    )
    _succeeds(pipeline, elsewhere)
    engine_zone = "CONVERT_TZ(stamp, @@session.time_zone, '+00:00')"
    found = pipeline.table.execute(
        f"SELECT id, CAST(plain AS CHAR), CAST(day AS CHAR), CAST({engine_zone} AS CHAR) FROM records ORDER BY id"
    )
    right = [{**_MOMENTS, **_FAR}[at] for at in sent]
    assert [(row[0], row[1], row[2]) for row in found] == [(n, at, at[:10]) for n, at in enumerate(right)]
    assert [row[3] for row in found] == [at if n < len(_MOMENTS) else None for n, at in enumerate(right)]

    # What a column would alter is one error and no row.
    before = len(sent)
    for column, value, fragments in (
        ("DATETIME(0)", "2024-01-01T00:00:00.5", ("column 'at'", "0 digits")),
        ("DATETIME(3)", "2024-01-01T00:00:00.0005", ("column 'at'", "3 digits")),
        ("TIMESTAMP(6) NULL", "1969-12-31T23:00:00", ("'at'",)),
        ("TIMESTAMP(6) NULL", "2106-02-07T06:28:16", ("'at'",)),
        ("DATETIME(6)", "0000-00-00T00:00:00", ("partition ", "'0000-00-00T00:00:00' does not fit", "on_bad_record")),
        ("DATETIME(6)", "2024-02-30T00:00:00", ("partition ", "'2024-02-30T00:00:00' does not fit", "on_bad_record")),
        ("DATETIME(6)", "2024-01-01T00:00:00.0000001", ("partition ", "does not fit", "on_bad_record")),
    ):
        _table(pipeline, f"id BIGINT, at {column}", "id BIGINT, at TIMESTAMP", "id, at")
        begin = {f"{pipeline.source['topics'][0]}/{n}": (before + 1 - n) // 2 for n in range(2)}
        pipeline.spec["pipeline"] = secrets.token_hex(4)
        pipeline.spec["checkpoint"]["location"] = f"./{pipeline.spec['pipeline']}"
        pipeline.source["starting_offsets"] = {"offsets": begin}
        _produce(
            pipeline, [json.dumps({"id": n, "at": at}).encode() for n, at in enumerate(("2024-01-01T00:00:00", value))]
        )
        before += 2
        _fails(pipeline, elsewhere, *fragments)
        assert pipeline.table.count() == 0
