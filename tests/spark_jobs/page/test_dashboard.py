"""Grafana's dashboard and Prometheus' rules, against the metrics that a run serves and the page that describes them."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from spark_jobs.observe.history.model import StateOperator, StateSize
from spark_jobs.observe.withheld import Poll
from spark_jobs.page.metrics import Metrics
from tests.page_history import INCARNATION, RUN, spec_of
from tests.spark_jobs.page.test_metrics import lag, record, report
from twophase.news import CommittedUpTo, Decided

_DOCKER: Final = Path(__file__).parents[3] / "docker"
_PAGE: Final = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
_METRIC: Final = re.compile(r"\beos_\w+")
_PARTS: Final = re.compile(r"_(bucket|sum|count)$")  # of a histogram
_NOT_SHOWN: Final = {"eos_pipeline_info"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The metrics of a run that has polled, and has completed a checkpoint."""
    metrics = Metrics(per_split=True)
    told = metrics.listener(spec_of(tmp_path_factory.mktemp("spec")), run_id=RUN, version="9")
    told.on_driver_event(Decided(record(0)))
    told.on_driver_event(CommittedUpTo(INCARNATION, 0))
    told.on_checkpoint(report(0))
    told.on_polls([Poll("orders", 0.0, "", {})])
    told.on_lag(lag({"orders/0": 7}))
    told.on_state_size(StateSize(0, (StateOperator(0, "counted", "stateStoreSave", 5, 2, 0, 1, 1000, 3),), 1.0))
    families = text_string_to_metric_families(metrics.exposed()[0].decode())
    names = {sample.name for family in families for sample in family.samples}
    return {_PARTS.sub("", name) for name in names if not name.endswith("_created")}


def _panels() -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = json.loads((_DOCKER / "grafana" / "dashboards" / "eos.json").read_text())["panels"]
    return panels


def _named(*expressions: str) -> set[str]:
    return {_PARTS.sub("", name) for each in expressions for name in _METRIC.findall(each)}


def test_the_dashboard_shows_every_metric_and_no_other(served: set[str]) -> None:
    shown = [target["expr"] for panel in _panels() for target in panel.get("targets", [])]
    assert len(shown) > 15
    assert _named(*shown) == served - _NOT_SHOWN


def test_the_rules_name_metrics_that_are_served(served: set[str]) -> None:
    groups = YAML(typ="safe").load(_DOCKER / "prometheus" / "alerts.yml")["groups"]
    found = _named(*(rule["expr"] for group in groups for rule in group["rules"]))
    assert found
    assert found <= served


def test_the_page_describes_every_metric_and_no_other(served: set[str]) -> None:
    assert set(re.findall(r"^\| `(eos_\w+)` \|", _PAGE.read_text(), re.MULTILINE)) == served


def test_no_panel_lies_upon_another() -> None:
    places = [panel["gridPos"] for panel in _panels()]
    assert all(each["x"] + each["w"] <= 24 for each in places)
    for one, other in itertools.combinations(places, 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert apart or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"], (one, other)
    assert len({panel["id"] for panel in _panels()}) == len(places)


def test_every_target_of_a_panel_has_a_name_of_its_own() -> None:
    for panel in _panels():
        names = [target["refId"] for target in panel.get("targets", [])]
        assert len(set(names)) == len(names)
        overridden = {each["matcher"]["options"] for each in panel.get("fieldConfig", {}).get("overrides", [])}
        assert overridden <= set(names)
