"""The pure parts of the benchmark of formats: records and their expected rows, the plan, and the tables."""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from benchmarks.bench import topic
from benchmarks.bench.comparison import results
from benchmarks.bench.comparison.results import COLD, Machine, Result
from benchmarks.bench.comparison.work import Work
from benchmarks.bench.formats import connect, encoding, flink, plan, report, schemas
from benchmarks.bench.formats.changes import CREATED, DELETED, UPDATED, changes
from benchmarks.bench.formats.forms import FORMS
from connectors.formats.protobuf.compiler import compile_text

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA_ID, KEY_ID = 70_000, 3
MACHINE = Machine("2026-11-22", 2, 24, "Apache Kafka 4.3.0", "MySQL 9.7.4", "docker")


def _avro(schema: str, content: bytes | None, schema_id: int = SCHEMA_ID) -> Any:
    assert content is not None
    assert content[:5] == b"\0" + schema_id.to_bytes(4)
    stream = io.BytesIO(content[5:])
    value = fastavro.schemaless_reader(stream, fastavro.parse_schema(json.loads(schema)))
    assert stream.read() == b""
    return value


@pytest.mark.parametrize("count", [4, 83, 400, 10_007])
def test_changes_are_those_of_a_table_and_leave_its_rows(count: int) -> None:
    events = changes(count)
    rows: dict[int, int] = {}
    for event, (operation, key, before, after) in enumerate(
        zip(events.operations, events.ids, events.before, events.after, strict=True)
    ):
        assert key % topic.PARTITIONS == event % topic.PARTITIONS
        assert before == rows.get(key, -1)
        assert (before >= 0, after >= 0) == (operation != CREATED, operation != DELETED)
        if operation == DELETED:
            del rows[key]
        else:
            rows[key] = after
    ids, amounts = events.remaining()
    assert dict(zip(ids, amounts, strict=True)) == rows
    assert set(events.operations[-topic.PARTITIONS :]) == {CREATED}
    if count > 10_000:
        found = Counter(events.operations.tolist())
        assert found[CREATED] / count == pytest.approx(0.80, abs=0.005)
        assert found[UPDATED] / count == pytest.approx(0.15, abs=0.005)
        assert len(set(events.ids[events.operations == UPDATED])) > 0.6 * found[UPDATED]  # over many rows


def test_rows_are_the_same_in_json_avro_and_protobuf() -> None:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(compile_text(schemas.ROW_PROTOBUF, {})).file:
        pool.Add(file)
    message: Any = GetMessageClass(pool.FindMessageTypeByName("shop.Row"))
    numbers = range(2_100)
    in_protobuf_plain = encoding.protobuf_rows(2_100, None)
    encoded = zip(
        encoding.avro_rows(2_100, SCHEMA_ID), encoding.protobuf_rows(2_100, SCHEMA_ID), in_protobuf_plain, strict=True
    )
    for number, (in_avro, in_protobuf, plain) in zip(numbers, encoded, strict=True):
        expected = json.loads(topic.value(number))
        found = _avro(schemas.ROW_AVRO, in_avro.value)
        assert {**found, "ts": f"{found['ts']:%Y-%m-%dT%H:%M:%S}"} == expected
        assert in_protobuf.value is not None
        assert in_protobuf.value[:6] == b"\0" + SCHEMA_ID.to_bytes(4) + b"\0"
        assert in_protobuf.value[6:] == plain.value
        row = message.FromString(plain.value)
        assert (row.id, row.user, row.amount) == (expected["id"], expected["user"], expected["amount"])
        assert row.ts.ToDatetime() == found["ts"].replace(tzinfo=None)
        assert in_avro.partition == in_protobuf.partition == number % topic.PARTITIONS


def test_events_are_the_same_in_json_and_avro_and_a_tombstone_follows_each_deletion() -> None:
    events = changes(2_100)
    deleted, tombstones = 0, 0
    records = zip(encoding.json_events(events), encoding.avro_events(events, KEY_ID, SCHEMA_ID), strict=True)
    for in_json, in_avro in records:
        assert in_json.partition == in_avro.partition
        assert in_json.key is not None
        assert json.loads(in_json.key) == _avro(schemas.KEY_AVRO, in_avro.key, KEY_ID)
        if in_json.value is None:
            assert in_avro.value is None
            tombstones += 1
            assert tombstones == deleted
            continue
        event = json.loads(in_json.value)
        assert event == _avro(schemas.ENVELOPE_AVRO, in_avro.value)
        assert (event["after"] or event["before"])["id"] == json.loads(in_json.key)["id"]
        deleted += event["op"] == "d"
    assert tombstones == deleted > 90


def test_the_schema_for_connect_has_all_fields_of_an_event_in_json() -> None:
    event = next(iter(encoding.json_events(changes(4))))
    assert event.value is not None

    def names(struct: Any) -> dict[str, Any]:
        return {field["field"]: names(field) if field["type"] == "struct" else None for field in struct["fields"]}

    found = json.loads(event.value)
    described = names(json.loads(schemas.ENVELOPE_CONNECT))
    assert described.keys() == found.keys()
    assert described["source"].keys() == found["source"].keys()
    assert described["after"].keys() == found["after"].keys()


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_expected_rows_are_found_without_the_records(form: Any) -> None:
    given: list[tuple[str, str]] = []

    def register(part: str, kind: str, text: str) -> int:
        given.append((part, kind))
        assert text
        return len(given)

    records, expected = form.content(400, register)
    assert bool(given) == form.has_registry
    values = [record for record in records if record.value is not None]
    assert len(values) == 400
    assert expected.is_changing == form.has_changes
    assert expected.checksum is not None
    assert len(expected.last_ids) == topic.PARTITIONS
    assert expected.rows == (400 - 2 * 20 - 60 if form.has_changes else 400)
    assert not form.has_changes or expected.ids_sum == int(changes(400).remaining()[0].sum())


def test_each_system_reads_the_formats_that_it_knows() -> None:
    steps = plan.FormatsPlan(["protobuf", "avro"], plan.SYSTEMS, [10, 20], 2).steps()
    found = [(step.rows, step.round, step.format, step.system.name) for step in steps]
    assert found[:4] == [
        (10, 1, "avro", "eos"),
        (10, 1, "avro", "flink"),
        (10, 1, "avro", "debezium"),
        (10, 1, "protobuf", "eos"),
    ]
    assert found[4][:2] == (10, 2)
    assert len(found) == 16
    assert list(plan.FormatsPlan(["protobuf"], ["flink"], [10], 1).steps()) == []


def test_peers_are_given_the_format_the_key_and_deletions(tmp_path: Path) -> None:
    work = Work(
        "broker:9092", "events", "mysql+pymysql://u:p'w@server:3307/d", tmp_path, 10, False, "http://registry:8081"
    )
    source, sink, copied = flink._statements(FORMS["debezium-avro"], work)
    assert "'format' = 'debezium-avro-confluent', 'debezium-avro-confluent.url' = 'http://registry:8081'" in source
    assert "PRIMARY KEY (id) NOT ENFORCED" in source
    assert "'password' = 'p''w'" in sink
    assert "jdbc:mysql://server:3307/d?rewriteBatchedStatements=true" in sink
    assert copied.startswith("INSERT INTO target SELECT id, `user`, amount, CAST(")
    of_changes = connect._connector(FORMS["debezium-json"], work)
    assert (of_changes["primary.key.mode"], of_changes["delete.enabled"]) == ("record_key", "true")
    assert connect._connector(FORMS["avro"], work)["primary.key.fields"] == "id"


def test_the_first_record_read_is_found_in_the_logs(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("2026-11-21T00:00:01.250+0000 [Source] INFO SourceReaderBase - Adding split(s) to reader: [a]\n" * 2)
    assert flink._first_read(log) == 1_795_219_201.25
    line = "2026-11-21 05:45:01.500+05:45 INFO WorkerSinkTask Sink task finished initialization and start\n"
    log.write_text(f"2026-11-21 05:45:00.000+05:45 WARN Other text\n{line}")
    assert connect._first_start(log) == 1_795_219_201.5
    log.write_text("")
    assert flink._first_read(log) is None
    assert connect._first_start(log) is None


def _run(system: str, number: int, rate: float, cpu_s: float, form: str = "avro") -> Result:
    values = {"rows_per_s_from_start": rate, "cpu_s_per_million_system": cpu_s}
    return Result(system, COLD, 1_000_000, number, values, format=form)


RUNS = [
    *(_run("eos", number, rate, 5.0) for number, rate in ((1, 100.0), (2, 300.0), (3, 90.0))),
    *(_run("flink", number, rate, 10.0) for number, rate in ((1, 50.0), (2, 100.0), (3, 90.0))),
    *(_run("debezium", number, rate, 4.0) for number, rate in ((1, 80.0), (2, 200.0))),
    replace(_run("debezium", 3, 0, 0), values={}, error="it ended with 1"),
    replace(_run("eos", 1, 200.0, 6.0, "protobuf"), disturbed=True),
]


def test_a_ratio_is_to_the_best_peer_of_the_same_round() -> None:
    in_avro = [run for run in RUNS if run.format == "avro"]
    assert report.ratio(in_avro, "rows_per_s_from_start", max) == 1.25  # of 1.25, 1.5 and 1
    assert report.ratio(in_avro, "cpu_s_per_million_system", min) == 1.25  # of 1.25, 1.25 and 0.5
    assert report.ratio(in_avro[:3], "rows_per_s_from_start", max) is None


def test_the_tables_have_each_system_by_format() -> None:
    text = report.text([MACHINE, MACHINE], RUNS)
    assert text.count("2026-11-22: 2 cores, 24 GiB") == 1
    assert "### 1,000,000 records of each format, median of 3 rounds" in text
    assert "| Avro | eos, two-phase | exactly-once | 100 | 5.0 |" in text
    assert "| Avro | Flink SQL, JDBC upsert | at-least-once | 90 | 10.0 |" in text
    assert "| Protobuf | eos, two-phase | exactly-once | 200 | 6.0 |" in text
    assert "| Avro | 1.25 |  |  | 1.25 |" in text
    assert "| Protobuf | 2" not in text
    assert "1 of 10 runs were disturbed" in text
    assert "Failed: Avro, Debezium's sink, upsert, 1,000,000 records, round 3." in text
    bold = report.text([MACHINE], [_run("eos", 1, 150.0, 5.0), _run("flink", 1, 100.0, 10.0)])
    assert "| Avro | **1.50** |  |  | **0.50** |" in bold


def test_the_report_takes_the_place_of_the_last_one(tmp_path: Path) -> None:
    page, runs = tmp_path / "benchmarks.md", tmp_path / "formats.jsonl"
    page.write_text(f"# Benchmarks\n\n{report.BEGIN}\nlast year's\n{report.END}\n\n## More\n")
    lines = [results.line(MACHINE), *map(results.line, RUNS)]
    runs.write_text("".join(f"{each}\n" for each in lines))
    assert report.is_of_formats(runs)
    for _ in range(2):
        report.report([runs], page)
    assert "last year" not in page.read_text()
    assert page.read_text().count("### 1,000,000 records") == 1
    assert page.read_text().endswith(f"{report.END}\n\n## More\n")
    runs.write_text(f"{results.line(MACHINE)}\n")
    assert not report.is_of_formats(runs)
    with pytest.raises(ValueError, match="no run that went well"):
        report.report([runs], page)


def test_the_tables_of_the_page_are_made_from_the_lines_beside_it(tmp_path: Path) -> None:
    page = DOCS / "explanation" / "benchmarks.md"
    files = [path for path in sorted((DOCS / "benchmarks").glob("*.jsonl")) if report.is_of_formats(path)]
    if not files:
        section = page.read_text().split(report.BEGIN)[1].split(report.END)[0]
        assert "|" not in section
        return
    copy = tmp_path / "benchmarks.md"
    copy.write_text(page.read_text())
    report.report(files, copy)
    assert copy.read_text() == page.read_text()
