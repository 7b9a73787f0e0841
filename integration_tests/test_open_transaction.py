"""Committed records behind an open transaction: they are shown, and a run until caught up waits for them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from integration_tests.harness.pipeline import Pipeline
from integration_tests.services import Services
from tests.page_http import client_of

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_READABLE = 600
_BEHIND = 1_000
_PATIENCE_S = 120.0
_WAITS = "waiting for an open transaction since"


def _transactional(services: Services, topic: str) -> Producer:
    """One whose transaction the broker aborts no earlier than the longest test ends."""
    return Producer(
        {
            "bootstrap.servers": services.kafka_bootstrap,
            "transactional.id": f"tx-{topic}",
            "transaction.timeout.ms": 900_000,
        }
    )


@pytest.fixture
def blocked(pipeline: Pipeline, services: Services) -> Producer:
    """A producer whose transaction is open on both partitions, with 1,000 committed records of another one behind."""
    pipeline.workload.produce(_READABLE)
    made = _transactional(services, pipeline.workload.topic)
    made.init_transactions(60)
    made.begin_transaction()
    for partition in range(2):
        made.produce(pipeline.workload.topic, b"not a row", partition=partition)
    assert made.flush(30) == 0
    pipeline.workload.produce(_BEHIND)
    return made


def _status(pipeline: Pipeline) -> dict[str, Any]:
    return pipeline.command("status", "--json").facts()


def _wait_for(true: Callable[[], bool], what: Callable[[], str]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, what()
        time.sleep(0.3)


@pytest.mark.timeout(600)
def test_a_run_until_caught_up_waits_for_what_is_behind(pipeline: Pipeline, blocked: Producer) -> None:
    process = pipeline.start()
    process.await_output(_WAITS)
    time.sleep(3.0)
    assert process.exit_code is None, process.output()
    assert pipeline.verdict().in_sink == _READABLE
    topic = pipeline.workload.topic
    assert f"{topic}/0 501 offsets from 300" in process.output()
    assert f"{topic}/1 501 offsets from 300" in process.output()
    assert "find-hanging" in process.output()
    _wait_for(lambda: _status(pipeline)["lag"]["records"] == 0, process.output)
    found = _status(pipeline)
    assert (found["lag"]["withheld"], found["withheld"]["records"]) == (1_002, 1_002)
    assert [each["split"] for each in found["withheld"]["splits"]] == [f"{topic}/0", f"{topic}/1"]
    assert found["withheld"]["since"] <= found["withheld"]["at"] <= time.time()
    text = pipeline.command("status")
    text.succeed()
    assert "1,002 records behind" in text.output()
    assert "waiting for an open transaction since" in " ".join(text.output().split())

    pipeline.workload.produce(20)  # before the abort: the plan after it covers them
    row = {"id": 1_000_000, "word": "open", "payload": "of the transaction"}
    blocked.produce(topic, json.dumps(row).encode(), partition=0)
    blocked.abort_transaction(30)
    process.succeed()
    pipeline.assert_exact(at_least=_READABLE + _BEHIND + 20)
    assert _status(pipeline)["withheld"] is None


@pytest.mark.timeout(600)
def test_rows_of_the_transaction_come_with_its_commit(pipeline: Pipeline, services: Services) -> None:
    """The open transaction begins with the topic: no checkpoint comes before it."""
    topic = pipeline.workload.topic
    own = _transactional(services, topic)
    own.init_transactions(60)
    own.begin_transaction()
    row = (1_000_000, "open", "of the transaction")
    own.produce(topic, json.dumps(dict(zip(("id", "word", "payload"), row, strict=True))).encode(), partition=0)
    assert own.flush(30) == 0
    pipeline.workload.produce(_BEHIND)
    process = pipeline.start()
    process.await_output(_WAITS)
    time.sleep(3.0)
    assert process.exit_code is None, process.output()
    assert pipeline.verdict().in_sink == _BEHIND // 2, "those of the other partition"
    own.commit_transaction(30)
    process.succeed()
    pipeline.workload.expected[row] += 1
    pipeline.assert_exact(at_least=_BEHIND + 1)


@pytest.mark.timeout(600)
def test_a_wait_is_stopped_by_a_request(pipeline: Pipeline, blocked: Producer) -> None:
    process = pipeline.start()
    process.await_output(_WAITS)
    began = time.monotonic()
    pipeline.command("stop").succeed()
    process.succeed()
    assert time.monotonic() - began < 60
    assert pipeline.verdict().in_sink == _READABLE
    blocked.abort_transaction(30)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_READABLE + _BEHIND)


@pytest.mark.timeout(600)
def test_a_running_pipeline_shows_it(pipeline: Pipeline, blocked: Producer) -> None:
    process = pipeline.command("run", "--ui", "--ui-port", "0")
    process.await_output("page: http")
    client, key = client_of(process.output()), pipeline.workload.topic

    def figure(name: str) -> float:
        families = text_string_to_metric_families(client.get("/metrics").body.decode())
        return sum(each.value for family in families for each in family.samples if each.name == name)

    assert figure("eos_withheld_seconds") == 0
    _wait_for(lambda: figure("eos_withheld_records") == 1_002, process.output)
    _wait_for(lambda: figure("eos_rows_total") == _READABLE, process.output)
    _wait_for(lambda: (figure("eos_up"), figure("eos_lag_records")) == (1, 0), process.output)
    _wait_for(lambda: figure("eos_withheld_seconds") > 2, process.output)
    overview = client.api(key)
    assert (overview["state"], overview["withheld_records"]) == ("running", 1_002)
    first = overview["withheld"][0]
    assert (first["split"], first["begin"], first["end"], first["reason"]) == (
        f"{key}/0",
        300,
        801,
        "an open transaction",
    )
    since = _status(pipeline)["withheld"]["since"]
    assert since == min(each["since"] for each in overview["withheld"])

    process.terminate()
    process.succeed()
    assert _status(pipeline)["withheld"]["records"] == 1_002
    process = pipeline.command("run")
    _wait_for(lambda: _status(pipeline)["withheld"]["at"] > since + 1 and process.exit_code is None, process.output)
    assert _status(pipeline)["withheld"]["since"] == since, "it outlives a restart"
    blocked.abort_transaction(30)
    _wait_for(lambda: pipeline.verdict().in_sink == _READABLE + _BEHIND, process.output)
    _wait_for(lambda: _status(pipeline)["withheld"] is None, process.output)
    process.terminate()
    process.succeed()
    pipeline.assert_exact(at_least=_READABLE + _BEHIND)
