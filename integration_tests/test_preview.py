"""`eos preview` on real servers: the rows of a first run, and nothing written anywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from connectors.kafka.splits import as_offset
from integration_tests.harness.command_line import CommandLine, Ended
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.services import Services

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_OWN = ("eos_claim", "eos_permit", "eos_slot", "eos_witness")


def _preview(pipeline: Pipeline, eos: CommandLine, *options: str) -> Ended:
    return eos.run(["preview", str(pipeline.write_spec()), *options], pipeline.environment)


def _facts(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.output
    facts: dict[str, Any] = json.loads(ended.output[ended.output.index("{\n") :])
    return facts


def _all(pipeline: Pipeline) -> dict[str, Any]:
    """Everything that a look must leave as it is: the location's files, and every table of the database."""
    files = {path: path.read_bytes() for path in pipeline.folder.rglob("*") if path.is_file()}
    tables = sorted(str(row[0]) for row in pipeline.table.execute("SHOW TABLES"))
    return {"files": files, **{table: sorted(pipeline.table.execute(f"SELECT * FROM `{table}`")) for table in tables}}


@pytest.mark.timeout(900)
def test_a_look_shows_the_rows_and_leaves_no_trace(pipeline: Pipeline, eos: CommandLine, services: Services) -> None:
    workload = pipeline.workload
    workload.produce(2 * CHECKPOINT_RECORDS)
    pipeline.source["group_id"] = f"group-{workload.topic}"
    pipeline.write_spec()
    before = _all(pipeline)
    assert list(before) == ["files", "records"], "a table that no pipeline has written to"

    found = _facts(_preview(pipeline, eos, "--json", "--rows", "7"))
    assert [column["name"] for column in found["columns"]] == ["id", "word", "payload"]
    rows = [(row["id"], row["word"], row["payload"]) for row in found["rows"]]
    assert len(set(rows)) == 7
    assert all(row in workload.expected for row in rows)
    assert _all(pipeline) == before
    assert not pipeline.location.exists()

    # Of a pipeline that has run, too, and from elsewhere.
    ended = eos.run(["run", str(pipeline.write_spec()), "--until-caught-up"], pipeline.environment)
    assert ended.code == 0, ended.output
    before, committed = _all(pipeline), _committed(services, pipeline.source["group_id"])
    assert sum(len(before[table]) for table in _OWN) > 0
    split = f"{workload.topic}/1"
    at = as_offset(pipeline.head.positions["incoming"][split]) - 3
    nothing = f"{workload.topic}/0={pipeline.head.positions['incoming'][f'{workload.topic}/0']}"
    found = _facts(_preview(pipeline, eos, "--json", "--from", f"{split}={at},{nothing}"))
    assert len(found["rows"]) == 3
    assert _all(pipeline) == before
    assert _committed(services, pipeline.source["group_id"]) == committed
    pipeline.assert_exact(at_least=2 * CHECKPOINT_RECORDS)

    # A table that does not fit is one error, which --no-sink does not ask about; a record is only text.
    pipeline.table.execute("ALTER TABLE records DROP COLUMN word")
    workload.produce_words("\x1b[31mred\x07", "[bold]x[/bold]")
    refused = _preview(pipeline, eos)
    assert (refused.code, refused.output.count("error:")) == (1, 1), refused.output
    assert "column 'word' is missing in the table" in refused.output
    shown = _preview(pipeline, eos, "--no-sink", "--from", f"{split}={at + 3},{nothing}")
    assert shown.code == 0, shown.output
    assert r"\x1b[31mred\x07" in shown.output
    assert "[bold]x[/bold]" in shown.output
    assert "\x1b" not in shown.output


def _committed(services: Services, group: str) -> list[tuple[int, int]]:
    admin = AdminClient({"bootstrap.servers": services.kafka_bootstrap})
    (asked,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return sorted((p.partition, p.offset) for p in asked.result(30).topic_partitions)


@pytest.mark.timeout(600)
def test_a_look_at_steps_that_keep_state_that_let_nothing_through_and_that_are_wrong(
    pipeline: Pipeline, eos: CommandLine
) -> None:
    pipeline.workload.produce(100)
    steps = pipeline.spec["transforms"]
    steps[0] = {
        "name": "rows",
        "sql": "SELECT count(*) AS id, word, max(payload) AS payload FROM incoming GROUP BY word",
        "output_mode": "update",
    }
    found = _facts(_preview(pipeline, eos, "--json"))
    assert sorted(row["id"] for row in found["rows"]) == [10] * 10
    steps[0] = {"name": "rows", "sql": "SELECT id, word, payload FROM incoming WHERE id < 0"}
    shown = _preview(pipeline, eos)
    assert (shown.code, "No rows: the steps returned no rows" in shown.output) == (0, True), shown.output
    pipeline.source["starting_offsets"] = "latest"
    shown = _preview(pipeline, eos)
    assert (shown.code, "No rows: there is nothing to read; --from earliest" in shown.output) == (0, True), shown.output
    steps[0]["sql"] = "SELECT nothing FROM incoming"
    refused = _preview(pipeline, eos)
    assert (refused.code, refused.output.count("error:"), "Traceback" in refused.output) == (2, 1, False)
    assert "transforms[0].sql: line 1, column 8 of the SQL: unknown column 'nothing'" in refused.output
    steps[0]["sql"] = "SELECT no_such_function(id) FROM incoming"  # which only Spark knows
    refused = _preview(pipeline, eos)
    assert (refused.code, refused.output.count("error:"), "Traceback" in refused.output) == (2, 1, False)
    assert "transforms[0] (rows): " in refused.output
    assert "at org.apache.spark" not in refused.output, "no stack of Java's"
    assert not pipeline.location.exists()
    assert pipeline.table.execute("SHOW TABLES") == [("records",)]
