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
_IDLE_S: Final = 30.0


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
@pytest.mark.in_turns
def test_every_panel_of_the_dashboard_has_samples(pipeline: Pipeline, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    pipeline.workload.produce(_RECORDS)
    token_file = tmp_path / "token"
    token_file.write_text(CREDENTIALS)
    (step,) = pipeline.spec["transforms"]
    step["expect"] = [{"name": "known", "condition": "id >= 0", "action": "warn"}]
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
        time.sleep(_IDLE_S)  # nothing to read is no standstill
        wait_for(f"sum(time() - eos_progress_timestamp_seconds < bool {_IDLE_S / 2:g})", 1)
        wait_for("sum(eos_source_unread_records)", 0)
        process.terminate()
        process.succeed()
        wait_for('up{job="eos"}', 0)
    pipeline.assert_exact(at_least=_RECORDS)


_OF_ORDERS: Final = 'pipeline="orders"'
_OF_SOURCE: Final = f'{_OF_ORDERS}, source="incoming"'
_NOW: Final = "0+60x60"  # as far as `time()` is: a test begins at 0

_SERIES: Final[dict[str, tuple[dict[str, str], dict[str, str], str, str]]] = {
    "PipelineDown": (
        {'up{job="eos", instance="a:1"}': "0x60"},
        {
            'up{job="eos", instance="a:1"}': "1x60",
            f"eos_up{{{_OF_ORDERS}}}": "1x10 0x2 1x48",  # a restart
            f'eos_up{{{_OF_ORDERS}, instance="b:1"}}': "0x60",  # a standby
        },
        '{instance="a:1", job="eos"}',
        "a:1 does not run",
    ),
    "PipelineGone": (
        {f"eos_up{{{_OF_ORDERS}}}": "1x20 stale"},
        {f"eos_up{{{_OF_ORDERS}}}": "1x60"},
        f"{{{_OF_ORDERS}}}",
        "orders was there within the last hour, and nothing is scraped of it any more",
    ),
    "Stuck": (
        {
            f"eos_progress_timestamp_seconds{{{_OF_ORDERS}}}": "0+60x10 600x50",
            f"eos_checkpoint_interval_seconds{{{_OF_ORDERS}}}": "2x60",
        },
        {
            f"eos_progress_timestamp_seconds{{{_OF_ORDERS}}}": _NOW,  # idle: it polls, and finds nothing
            f'eos_progress_timestamp_seconds{{{_OF_ORDERS}, instance="b:1"}}': "0x60",  # a standby
            f"eos_checkpoint_interval_seconds{{{_OF_ORDERS}}}": "2x60",
        },
        f"{{{_OF_ORDERS}}}",
        "orders has completed no checkpoint for 3000 s, and has records to read or does not poll: `eos status` says "
        "where it is",
    ),
    "LagUnknown": (
        {f"eos_lag_measured_timestamp_seconds{{{_OF_SOURCE}}}": "0+60x10 600x50"},
        {f"eos_lag_measured_timestamp_seconds{{{_OF_SOURCE}}}": _NOW},
        f"{{{_OF_SOURCE}}}",
        "orders: the lag of the source incoming is unknown for 3000 s: `eos status` has the reason",
    ),
    "Restarting": (
        {f"eos_restarts_total{{{_OF_ORDERS}}}": "0+1x60"},
        {f"eos_restarts_total{{{_OF_ORDERS}}}": "0x50 3x10"},
        f"{{{_OF_ORDERS}}}",
        "orders restarts again and again: its log names the cause",
    ),
    "SinkBehind": (
        {f'eos_sink_backlog_checkpoints{{{_OF_ORDERS}, sink="shop"}}': "11x60"},
        {f'eos_sink_backlog_checkpoints{{{_OF_ORDERS}, sink="shop"}}': "0x50 11x5 0x5"},
        f'{{{_OF_ORDERS}, sink="shop"}}',
        "orders: the sink shop is 11 checkpoints behind",
    ),
    "SinkAway": (
        {f'eos_sink_away{{{_OF_ORDERS}, sink="shop"}}': "1x60"},
        {f'eos_sink_away{{{_OF_ORDERS}, sink="shop"}}': "0x60"},
        f'{{{_OF_ORDERS}, sink="shop"}}',
        "orders has started without the sink shop, which was away: `eos status` says why",
    ),
    "OpenTransaction": (
        {f'eos_withheld_seconds{{{_OF_ORDERS}, source="incoming"}}': _NOW},
        {f'eos_withheld_seconds{{{_OF_ORDERS}, source="incoming"}}': "0x60"},
        f'{{{_OF_ORDERS}, source="incoming"}}',
        "orders: records of the source incoming cannot be read, since a transaction is open for 3600 s: "
        "`eos status` names the partition",
    ),
    "DeadLetters": (
        {f"eos_dead_letters_total{{{_OF_ORDERS}}}": "0x50 15x10"},
        {f"eos_dead_letters_total{{{_OF_ORDERS}}}": "15x60"},
        f"{{{_OF_ORDERS}}}",
        "orders has put 15 records aside: `eos dead-letters list` says why",
    ),
    "SkippedRecords": (
        {f"eos_skipped_records_total{{{_OF_SOURCE}}}": "0x50 15x10"},
        {f"eos_skipped_records_total{{{_OF_SOURCE}}}": "15x60"},
        f"{{{_OF_SOURCE}}}",
        "orders has left out 15 records of the source incoming, which do not decode: spark.stderr.log says why",
    ),
    "ManySkippedRecords": (
        {
            f"eos_skipped_records_total{{{_OF_SOURCE}}}": "0+10x60",
            f"eos_records_total{{{_OF_SOURCE}}}": "0+100x60",
        },
        {
            f"eos_skipped_records_total{{{_OF_SOURCE}}}": "0+4x60",
            f"eos_records_total{{{_OF_SOURCE}}}": "0+100x60",
        },
        f"{{{_OF_SOURCE}}}",
        "orders leaves out 10% of the records of the source incoming: has its schema changed?",
    ),
}
"""Of each alert: series that make it fire after an hour, series that do not, and its labels and text as it fires."""


def _labels(text: str) -> dict[str, str]:
    return dict(re.findall(r'(\w+)="([^"]*)"', text))


def test_each_alert_has_series_that_make_it_fire() -> None:
    found = YAML(typ="safe").load(CONFIG.with_name("alerts.yml"))
    assert {rule["alert"] for group in found["groups"] for rule in group["rules"]} == _SERIES.keys()


@pytest.mark.parametrize("fires", [True, False])
@pytest.mark.parametrize("alert", _SERIES)
def test_an_alert_fires_when_it_should_and_only_then(tmp_path: Path, alert: str, fires: bool) -> None:
    bad, good, labels, text = _SERIES[alert]
    expected = [{"exp_labels": _labels(labels), "exp_annotations": {"summary": text}}] if fires else []
    tests = [{"eval_time": "60m", "alertname": alert, "exp_alerts": expected}]
    if not fires:
        tests += [{"eval_time": f"{at}m", "alertname": alert, "exp_alerts": []} for at in range(1, 60)]
    checked = {
        "rule_files": [str(CONFIG.with_name("alerts.yml"))],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": each} for name, each in (bad if fires else good).items()],
                "alert_rule_test": tests,
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
