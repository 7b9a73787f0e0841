"""The lag is true or unknown: a stalled pipeline, a frozen driver, a silent broker, an open transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from integration_tests.harness import session
from integration_tests.harness.pipeline import Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess
from integration_tests.services import Services
from tests.page_http import Client, client_of

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_BEGUN = 1_000
_BURST = 30_000
_PATIENCE_S = 240.0


@dataclass
class _Running:
    """A pipeline that has caught up, with its page."""

    pipeline: Pipeline
    process: PipelineProcess
    client: Client

    def status(self, *options: str) -> dict[str, Any]:
        """What `eos status` says of the lag, in a process of its own."""
        found: dict[str, Any] = self.pipeline.command("status", "--json", *options).facts()["lag"]
        return found

    def overview(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.api(self.pipeline.workload.topic)
        return found

    def figure(self, name: str) -> float | None:
        """A metric; None: it is not served."""
        families = text_string_to_metric_families(self.client.get("/metrics").body.decode())
        found = [each.value for family in families for each in family.samples if each.name == name]
        return sum(found) if found else None

    def charted(self) -> int:
        """The largest lag of the last 15 minutes that the chart shows."""
        found = self.client.api(f"{self.pipeline.workload.topic}/series?metric=lag&buckets=500")
        (line,) = found["charts"][0]["lines"]
        return max((value for value in line["values"] if value is not None), default=0)

    def shows(self, records: int) -> None:
        """Wait until page and metrics have this lag; then `eos status` must have it, too, from the same measurement."""
        self.wait_for(lambda: self.overview()["lag_records"] == records)
        self.wait_for(lambda: self.figure("eos_lag_records") == records)
        found = self.status()
        assert (found["records"], found["unknown"], found["measured"]) == (records, None, records)
        assert 0 <= found["age_s"] <= 30

    def wait_for(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, f"{self.overview()}\n{self.process.output()}"
            time.sleep(0.3)

    def finish(self, records: int) -> None:
        """Wait until all of it is in the sink, and stop."""
        self.wait_for(lambda: self.pipeline.table.count() == records)
        self.shows(0)
        self.process.terminate()
        self.process.succeed()
        self.pipeline.assert_exact(at_least=records)
        assert self.status()["measured"] == 0, "the end of a run is measured"


@pytest.fixture
def running(pipeline: Pipeline) -> Iterator[_Running]:
    pipeline.spec["restart"]["attempts"] = 1_000
    pipeline.spec["checkpoint"]["max_records_per_checkpoint"] = 10_000
    pipeline.workload.produce(_BEGUN)
    process = pipeline.command("run", "--ui", "--ui-port", "0")
    process.await_output("page: http")
    found = _Running(pipeline, process, client_of(process.output()))
    found.wait_for(lambda: found.overview()["head"] is not None and pipeline.table.count() == _BEGUN)
    found.shows(0)
    yield found
    session.go_on(process.pid)


@pytest.mark.timeout(900)
def test_a_burst_is_seen_at_once_and_the_lag_of_a_stalled_pipeline_grows(running: _Running) -> None:
    """It had caught up, and its next checkpoint takes long: the plan before it has seen nothing of the burst."""
    process, workload = running.process, running.pipeline.workload
    process.faults.arm("prepared")
    workload.produce(1)
    process.await_point("prepared")
    workload.produce(_BURST)
    running.shows(1 + _BURST)
    for each in running.overview()["lag"]:
        assert each["position"] <= each["end"]
    workload.produce(500)
    running.shows(1 + _BURST + 500)
    running.wait_for(lambda: running.charted() > _BURST)
    process.release("prepared")
    running.finish(_BEGUN + 1 + _BURST + 500)
    assert " lag_age_s=" in process.output()


@pytest.mark.timeout(900)
def test_a_frozen_driver_has_an_unknown_lag_and_another_process_measures_it(running: _Running) -> None:
    session.stop(running.process.pid)
    running.pipeline.workload.produce(_BURST)
    deadline = time.monotonic() + _PATIENCE_S
    while (found := running.status())["records"] is not None:
        assert (found["records"], found["unknown"]) == (0, None), "it may be up to 30 s old, and says so"
        assert found["age_s"] <= 30
        assert time.monotonic() < deadline
    assert found["unknown"] == "the driver does not measure it: it is stopped, paused or overloaded"
    assert (found["measured"], found["age_s"] > 30) == (0, True)
    text = running.pipeline.command("status")
    text.succeed()
    assert "lag unknown: the driver does not measure it" in " ".join(text.output().split())
    measured = running.status("--measure-lag")
    assert (measured["records"], measured["unknown"]) == (_BURST, None)
    assert measured["age_s"] < 30
    assert running.status()["records"] is None, "it has written nothing"
    session.go_on(running.process.pid)
    running.finish(_BEGUN + _BURST)


@pytest.mark.timeout(900)
def test_the_lag_behind_an_open_transaction_is_what_read_committed_sees(running: _Running, services: Services) -> None:
    topic = running.pipeline.workload.topic
    own = Producer(
        {
            "bootstrap.servers": services.kafka_bootstrap,
            "transactional.id": f"tx-{topic}",
            "transaction.timeout.ms": 900_000,
        }
    )
    own.init_transactions(60)
    own.begin_transaction()
    row = (1_000_000, "open", "of the transaction")
    own.produce(topic, json.dumps(dict(zip(("id", "word", "payload"), row, strict=True))).encode(), partition=0)
    assert own.flush(30) == 0
    running.pipeline.workload.produce(1_000)  # 500 of them behind the transaction, in partition 0
    running.wait_for(lambda: running.pipeline.table.count() == _BEGUN + 500)
    running.wait_for(lambda: (running.figure("eos_withheld_records"), running.figure("eos_lag_records")) == (501, 0))
    for options in ((), ("--measure-lag",)):
        found = running.status(*options)
        assert (found["records"], found["withheld"]) == (0, 501)
        assert max(each["end"] for each in found["splits"]) < _BEGUN + 500, "the last stable offset"
    text = running.pipeline.command("status")
    text.succeed()
    assert "501 more cannot be read yet" in " ".join(text.output().split())
    own.commit_transaction(30)
    running.pipeline.workload.expected[row] += 1
    running.finish(_BEGUN + 1_000 + 1)
    assert running.status()["withheld"] == 0


@pytest.mark.alone
@pytest.mark.timeout(900)
def test_while_the_broker_is_silent_the_lag_is_unknown(running: _Running, killable: Services) -> None:
    killable.pause_kafka()
    try:
        running.wait_for(lambda: "no answer" in running.overview()["lag_unknown"])
        found = running.overview()
        assert (found["lag_records"], found["lag_measured"]) == (None, 0)
        assert running.figure("eos_lag_records") is None
        assert running.figure("eos_lag_measured_timestamp_seconds") == pytest.approx(found["lag_at"])
        assert "no answer" in running.status()["unknown"]
        assert "no answer" in running.status("--measure-lag")["unknown"]
    finally:
        killable.resume_kafka()
    running.pipeline.workload.produce(500)
    running.finish(_BEGUN + 500)
