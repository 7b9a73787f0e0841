"""What Prometheus makes of a run's metrics: Grafana's panels have samples, the rules name what there is."""

from __future__ import annotations

import json
import math
import re
import subprocess
import time
from pathlib import Path
from typing import Final

import pytest
from ruamel.yaml import YAML

from integration_tests.cluster.standalone import free_ports
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.services.prometheus_native import CONFIG, CREDENTIALS, Prometheus, program
from integration_tests.services.state import PROJECT

pytestmark = pytest.mark.any_server

_RECORDS: Final = 3 * CHECKPOINT_RECORDS
_DASHBOARD: Final = PROJECT / "docker" / "grafana" / "dashboards" / "eos.json"
_VARIABLES: Final = {"$__rate_interval": "1m", "$pipeline": ".*"}
_METRIC: Final = re.compile(r"\beos_\w+")
_PATIENCE_S: Final = 120.0


def _panels() -> list[tuple[str, str]]:
    """Title and expression of all."""
    panels = json.loads(_DASHBOARD.read_text())["panels"]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", [])]


def _rules() -> list[str]:
    found = YAML(typ="safe").load(CONFIG.with_name("alerts.yml"))
    return [rule["expr"] for group in found["groups"] for rule in group["rules"]]


def _values(prometheus: Prometheus, expression: str) -> list[float]:
    for name, value in _VARIABLES.items():
        expression = expression.replace(name, value)
    found = [float(each["value"][1]) for each in prometheus.query(expression)]
    return [each for each in found if not math.isnan(each)]


@pytest.mark.timeout(600)
def test_every_panel_of_the_dashboard_has_samples(pipeline: Pipeline, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    pipeline.workload.produce(_RECORDS)
    token_file = tmp_path / "token"
    token_file.write_text(CREDENTIALS)
    process = pipeline.command("run", "--ui", "--ui-port", str(port), "--ui-read-token-file", str(token_file))
    with Prometheus(tmp_path, f"127.0.0.1:{port}") as prometheus:

        def wait_for(expression: str, wanted: float | None = None) -> None:
            deadline = time.monotonic() + _PATIENCE_S
            while not (found := _values(prometheus, expression)) or (wanted is not None and found != [wanted]):
                assert time.monotonic() < deadline, f"{expression}: {found}\n{process.output()}"
                time.sleep(0.5)

        wait_for("sum(eos_rows_total)", 0)
        wait_for("sum(eos_rows_total)", _RECORDS)
        for title, expression in _panels():
            print(title)
            wait_for(expression)
        for metric in {metric for expression in _rules() for metric in _METRIC.findall(expression)}:
            wait_for(f"count({metric})")
        process.terminate()
        process.succeed()
        wait_for('up{job="eos"}', 0)
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.parametrize(("step_s", "alerts"), [(60, ["OpenTransaction"]), (0, [])])
def test_an_open_transaction_is_alerted(tmp_path: Path, step_s: int, alerts: list[str]) -> None:
    """Of records that have been withheld for longer each minute, and of a source that withholds nothing."""
    labels = {"pipeline": "orders", "source": "incoming"}
    series = {"series": 'eos_withheld_seconds{pipeline="orders", source="incoming"}', "values": f"0+{step_s}x40"}
    text = (
        "orders: records of the source incoming cannot be read, since a transaction is open for 1800 s: "
        "`eos status` names the partition"
    )
    expected = [{"exp_labels": labels, "exp_annotations": {"summary": text}} for _ in alerts]
    checked = {
        "rule_files": [str(CONFIG.with_name("alerts.yml"))],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [series],
                "alert_rule_test": [
                    {"eval_time": "15m", "alertname": "OpenTransaction", "exp_alerts": []},
                    {"eval_time": "30m", "alertname": "OpenTransaction", "exp_alerts": expected},
                ],
            }
        ],
    }
    path = tmp_path / "test.json"
    path.write_text(json.dumps(checked))  # JSON is YAML
    found = subprocess.run([program("promtool"), "test", "rules", path], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_configuration_is_one() -> None:
    checked = subprocess.run(
        [program("promtool"), "check", "config", CONFIG], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    assert f"SUCCESS: {len(_rules())} rules found" in checked.stdout
