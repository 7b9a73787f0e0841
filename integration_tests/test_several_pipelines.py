"""Two pipelines in one driver: what one meets is nothing to the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy
from prometheus_client.parser import text_string_to_metric_families

from integration_tests.conftest import TopicFactory
from integration_tests.harness.oracle import SinkTable
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.services import Services
from tests.page_http import client_of

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 3 * CHECKPOINT_RECORDS
_WAIT_S = 240.0


@pytest.fixture
def other(
    pipeline: Pipeline, services: Services, database: str, topic: TopicFactory, tmp_path: Path
) -> Iterator[Pipeline]:
    """Another pipeline, from a topic of its own to another table of the same database."""
    folder = tmp_path / "other"
    folder.mkdir()
    with Pipeline(folder, services.kafka_bootstrap, topic(partitions=PARTITIONS), database) as made:
        made.table = SinkTable(database, "others")
        made.table.create()
        made.spec["sinks"][0]["table"] = "others"
        made.spec["restart"] = {"strategy": "fixed-delay", "attempts": 1000, "delay": "100ms"}
        for each in (pipeline, made):
            each.spec["spark"]["master"] = "local[4]"
            each.workload.produce(_RECORDS)
        yield made


def _await(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not within {_WAIT_S:g} s"
        time.sleep(0.2)


@pytest.mark.timeout(900)
def test_one_that_cannot_write_restarts_by_itself_and_one_that_fails_for_good_ends_by_itself(
    pipeline: Pipeline, other: Pipeline
) -> None:
    engine = sqlalchemy.create_engine(other.table.url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as locking:
        locking.exec_driver_sql("LOCK TABLES others WRITE")
        process = pipeline.command("run", str(other.write_spec()), "--until-caught-up")
        _await("the first one commits all", lambda: pipeline.table.count() == _RECORDS)
        restarting = f"pipeline={other.spec['pipeline']} state=restarting"
        _await("the other one restarts", lambda: restarting in process.output())
        locking.exec_driver_sql("UNLOCK TABLES")
    process.succeed()
    for each in (pipeline, other):
        each.assert_exact(at_least=_RECORDS)
    assert process.output().count(f"pipeline={pipeline.spec['pipeline']} state=starting") == 1, "it began anew as well"

    other.table.execute("RENAME TABLE others TO elsewhere")
    pipeline.workload.produce(_RECORDS)
    process = pipeline.command("run", str(other.write_spec()), "--until-caught-up")
    process.fail("1 of 2 pipelines failed", f"{other.spec['pipeline']}: ", f"ended well: {pipeline.spec['pipeline']}")
    pipeline.assert_exact(at_least=2 * _RECORDS)
    other.table.execute("RENAME TABLE elsewhere TO others")

    process = pipeline.command("run", str(other.write_spec()), "--ui", "--ui-port", "0")
    _await("both run", lambda: process.output().count("state=running") == 2)
    client = client_of(process.output())
    names = [str(each.spec["pipeline"]) for each in (pipeline, other)]

    def states() -> dict[str, str]:
        return {each["name"]: each["state"] for each in client.get("/api/v1/pipelines").json["pipelines"]}

    def figures(name: str) -> dict[str, float]:
        families = text_string_to_metric_families(client.get("/metrics").body.decode())
        return {each.labels["pipeline"]: each.value for of in families for each in of.samples if each.name == name}

    assert states() == dict.fromkeys(names, "running")
    other.workload.produce(CHECKPOINT_RECORDS)
    _await(
        "the page tells each one's", lambda: figures("eos_records_total") == {names[0]: 0, names[1]: CHECKPOINT_RECORDS}
    )
    assert [client.api(each)["totals"]["records"] for each in names] == [2 * _RECORDS, _RECORDS + CHECKPOINT_RECORDS]
    assert client.post(f"/api/v1/pipelines/{names[1]}/stop").status == 202
    _await("one of them is stopped", lambda: states() == {names[0]: "running", names[1]: "stopped"})
    assert figures("eos_up") == {names[0]: 1, names[1]: 0}
    assert (client.get("/readyz").status, client.get("/healthz").status) == (503, 200)
    assert client.post(f"/api/v1/pipelines/{names[1]}/stop").status == 409
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    _await("the other one goes on", lambda: pipeline.table.count() == 2 * _RECORDS + CHECKPOINT_RECORDS)
    process.terminate()
    process.succeed()
    assert process.left_behind() == []
    other.assert_exact(at_least=_RECORDS + CHECKPOINT_RECORDS)
    pipeline.assert_exact(at_least=2 * _RECORDS + CHECKPOINT_RECORDS)
