"""The comparisons measure what runs, on real servers, and go on after what fails."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from benchmarks.bench.comparison.plan import Plan, Step
from benchmarks.bench.comparison.results import COLD, read
from benchmarks.bench.comparison.run import Patience, run, run_steps
from benchmarks.bench.comparison.systems import systems
from benchmarks.bench.comparison.work import Launch, System, Work
from benchmarks.bench.formats import eos, schemas
from benchmarks.bench.formats.apicurio import Apicurio
from benchmarks.bench.formats.arena import FormatsArena
from benchmarks.bench.formats.forms import FORMS
from integration_tests.services import Services
from integration_tests.services.registry_native import SchemaRegistry

ROWS = 20_000


def _half(work: Work) -> Launch:
    """Copies half of the records, and ends as if all were well."""
    return systems()["raw"].prepare(replace(work, rows=work.rows // 2))


def test_a_run_is_measured_and_one_that_loses_records_fails(services: Services, tmp_path: Path) -> None:
    raw, out = systems()["raw"], tmp_path / "bench.jsonl"
    lossy = System("lossy", "half of it", "none", _half, streams=False)
    patience = Patience(retries=0, wait_quiet_s=0)
    assert not run(Plan([lossy, raw], [COLD], [ROWS], 1, 1), services, out, patience)
    (machine,), (failed, well) = read([out])
    assert machine.database == str(services.database)
    assert "ended with 0" in failed.error
    assert not failed.values
    assert not well.error
    assert well.values["rows_per_s_from_start"] < well.values["rows_per_s_from_first_read"]
    assert well.values["peak_rss_mb"] > 0
    assert well.values["cpu_s_start"] > 0


@pytest.mark.any_server
@pytest.mark.in_turns
def test_this_projects_own_run_is_measured(services: Services, tmp_path: Path) -> None:
    own, out = systems()["eos-two-phase"], tmp_path / "bench.jsonl"
    assert run(Plan([own], [COLD], [ROWS], 1, 1), services, out, Patience(retries=0, wait_quiet_s=0))
    _, (found,) = read([out])
    assert not found.error
    assert 0 < found.values["s_start_to_first_read"] < found.values["s_start_to_all_visible"]
    assert 0 < found.values["cpu_s_start_compiling"] < found.values["cpu_s_start"]
    assert found.values["connections"] > 0


def _without_deletions(work: Work) -> Launch:
    """Copies all changes but deletions, and ends as if all were well."""
    launch = eos.system(FORMS["debezium-json"]).prepare(work)
    spec = json.loads((work.folder / "spec.yaml").read_text())
    spec["transforms"] = [{"name": "kept", "sql": "SELECT * FROM records WHERE NOT _deleted"}]
    spec["sinks"][0]["from"] = "kept"
    (work.folder / "spec.yaml").write_text(json.dumps(spec))
    return launch


@pytest.mark.any_server
@pytest.mark.in_turns
def test_change_events_are_measured_and_a_run_that_keeps_deleted_rows_fails(services: Services, tmp_path: Path) -> None:
    own, out = eos.system(FORMS["debezium-json"]), tmp_path / "formats.jsonl"
    lossy = System("lossy", "without deletions", "none", _without_deletions)
    steps = [Step(system, COLD, ROWS, 1, "debezium-json") for system in (lossy, own)]
    with FormatsArena(services) as arena:
        assert not run_steps(steps, arena.measure, services, out, Patience(retries=0, wait_quiet_s=0))
    _, (failed, well) = read([out])
    assert failed.error.startswith(f"{ROWS * 8 // 10} rows are there: it ended with 0")
    assert not well.error
    assert well.format == "debezium-json"
    assert well.values["rows_per_s_from_start"] < well.values["rows_per_s_from_first_read"]
    assert 0 < well.values["rows_at_first_visible"] <= ROWS * 75 // 100


@pytest.mark.registry
@pytest.mark.any_server
@pytest.mark.in_turns
@pytest.mark.timeout(600)
def test_formats_with_a_registry_are_measured(services: Services, tmp_path: Path) -> None:
    out = tmp_path / "formats.jsonl"
    names = [form.name for form in FORMS.values() if form.has_registry]
    steps = [Step(eos.system(FORMS[name]), COLD, ROWS, 1, name) for name in names]
    with FormatsArena(services) as arena:
        assert run_steps(steps, arena.measure, services, out, Patience(retries=0, wait_quiet_s=0))
    _, found = read([out])
    assert [result.format for result in found] == ["avro", "protobuf", "debezium-avro"]
    assert [result.values["rows_at_first_visible"] <= ROWS for result in found] == [True] * 3


@pytest.mark.registry
@pytest.mark.any_server
def test_the_client_of_apicurio_finds_the_same_schemas(registry: SchemaRegistry) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    given = client.register_schema("rows-value", Schema(schemas.ROW_AVRO, "AVRO"))
    with Apicurio(registry.url) as apicurio:
        with urlopen(f"{apicurio.url}/ids/contentIds/{given}", timeout=10) as answer:
            assert json.load(answer)["name"] == "Row"
        with urlopen(f"{apicurio.url}/ids/contentIds/{given}/references", timeout=10) as answer:
            assert json.load(answer) == []
        for path in ("contentIds/77777", "globalIds/1"):
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"{apicurio.url}/ids/{path}", timeout=10)
