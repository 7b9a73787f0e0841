"""The page that a running pipeline serves: what it shows is what moved, its buttons steer, and it ends with the run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from integration_tests.harness.page_browser import browser_or_skip
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from spark_jobs.savepoints.manifest import checked
from tests.page_http import client_of

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 4 * CHECKPOINT_RECORDS
_PATIENCE_S = 240


@pytest.mark.timeout(600)
def test_a_run_with_its_page(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.workload.produce(_RECORDS)
    process = pipeline.command("run", "--ui", "--ui-port", "0")
    process.await_output("page: http")
    client = client_of(process.output())
    key = pipeline.workload.topic

    def figure(name: str, **labels: str) -> float:
        families = text_string_to_metric_families(client.get("/metrics").body.decode())
        samples = [each for family in families for each in family.samples if each.name == name]
        assert samples, name
        wanted = {"pipeline": key, **labels}
        return sum(each.value for each in samples if wanted.items() <= each.labels.items())

    def all_is_committed() -> bool:
        last = client.api(key)["head"]
        return last is not None and figure("eos_checkpoint_duration_seconds_count") >= 4 and last["waiting"] == 0

    deadline = time.monotonic() + _PATIENCE_S
    while not all_is_committed():
        assert time.monotonic() < deadline, process.output()
        time.sleep(0.5)
    assert client.get("/healthz").status == client.get("/readyz").status == 200

    overview = client.api(key)
    assert (overview["state"], overview["can_steer"], overview["problems"]) == ("running", True, [])
    assert overview["head"]["committed"] == overview["last"]["checkpoint_id"] == 3
    assert overview["totals"]["records"] == _RECORDS
    (sink,) = client.api(f"{key}/sinks")["sinks"]
    assert (sink["rows"], sink["backlog_checkpoints"]) == (_RECORDS, 0)
    one = client.api(f"{key}/checkpoints/2")
    assert sum(each["rows"] for each in one["acknowledgements"]) == one["checkpoint"]["rows"] == CHECKPOINT_RECORDS
    assert client.api(f"{key}/transactions")["transactions"] == []

    assert figure("eos_up") == 1
    assert figure("eos_checkpoints_completed_total") == 4
    assert (
        figure("eos_checkpoints_failed_total") == figure("eos_restarts_total") == figure("eos_dead_letters_total") == 0
    )
    assert figure("eos_checkpoint_last_completed_id") == 3
    assert figure("eos_records_total", source="incoming") == _RECORDS
    assert figure("eos_rows_total", sink="warehouse") == _RECORDS
    assert figure("eos_written_bytes_total", sink="warehouse") == sink["bytes"] > 0
    assert figure("eos_sink_backlog_checkpoints", sink="warehouse") == 0
    while figure("eos_lag_records", source="incoming") != 0:  # measured every five seconds
        assert time.monotonic() < deadline, process.output()
        time.sleep(0.5)
    for phase in ("start", "read", "write", "prepare", "decide", "commit"):
        assert figure("eos_checkpoint_phase_seconds_count", phase=phase) == 4, phase
        assert 0 < figure("eos_checkpoint_phase_seconds_sum", phase=phase) < 120, phase
    kept = [
        each["duration_s"] - (each["phases"]["plan_s"] or 0) for each in client.api(f"{key}/checkpoints")["checkpoints"]
    ]
    assert figure("eos_checkpoint_duration_seconds_sum") == pytest.approx(sum(kept), rel=0.2)
    assert figure("eos_pipeline_info", mode="exactly-once") == 1

    with browser_or_skip(tmp_path) as browser:
        browser.get(f"{client.url}#token={client.token}")

        def shows(css: str, text: str) -> None:
            script = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent).join(' ')"
            WebDriverWait(browser, _PATIENCE_S, 0.2).until(
                lambda _: text in browser.execute_script(script, css), f"{css} with {text}\n{process.output()}"
            )

        shows(".state", "running")
        shows("main", f"{_RECORDS:,}")
        pipeline.workload.produce(CHECKPOINT_RECORDS)
        browser.find_element(By.CSS_SELECTOR, "[data-key=checkpoint]").click()
        shows(".note:not(.bad)", " committed")
        WebDriverWait(browser, _PATIENCE_S, 0.2).until(lambda _: not browser.find_elements(By.CSS_SELECTOR, ".note"))
        assert pipeline.table.count() == _RECORDS + CHECKPOINT_RECORDS, "all that was there when it was pressed"
        browser.find_element(By.CSS_SELECTOR, "[data-key=savepoint]").click()
        newest = pipeline.head.committed
        shows(".note:not(.bad)", f"savepoint: savepoint of checkpoint {newest}")
        (savepoint,) = (pipeline.location / "savepoints").iterdir()
        assert checked(savepoint).checkpoint_id == newest
        epoch = client.api(key)["head"]["epoch"]
        browser.find_element(By.CSS_SELECTOR, "[data-key=restart]").click()
        browser.find_element(By.CSS_SELECTOR, "dialog button.primary").click()
        shows(".note:not(.bad)", f"restart: restarted, as epoch {epoch + 1}")
        pipeline.workload.produce(CHECKPOINT_RECORDS)
        browser.find_element(By.CSS_SELECTOR, "[data-key=checkpoint]").click()
        shows("main", f"{_RECORDS + 2 * CHECKPOINT_RECORDS:,}")
        shows("main", "In progress")
        phases = {client.api(key)["in_progress"]["phase"] for _ in range(5)}
        assert phases <= {"idle", "start", "tasks", "decide", "wait", "commit"}
        lines = client.get(f"/api/v1/pipelines/{key}/log?of=run").json["lines"]
        assert any("state=committed" in line for line in lines)
        assert figure("eos_restarts_total") == 0, "a restart on request is no failure"
        browser.find_element(By.CSS_SELECTOR, "[data-key=stop]").click()
        browser.find_element(By.CSS_SELECTOR, "dialog button.primary").click()
        process.succeed()
        shows(".state.gone", "no answer")
        notes = browser.find_element(By.ID, "notes").text
        assert "stop: stopped" in notes or "stop: the run has ended" in notes
    assert process.left_behind() == []
    assert "by=the page at " in process.output()
    pipeline.assert_exact(at_least=_RECORDS + 2 * CHECKPOINT_RECORDS)
