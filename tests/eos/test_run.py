"""`eos.run` refuses before anything is started; integration_tests/test_program.py runs pipelines."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from eos import SpecError, load_spec, run
from tests.eos.test_surface import ROOT

ORDERS = ROOT / "examples" / "orders" / "orders.yaml"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA", "k:1")
    monkeypatch.setenv("SINK_URL", "mysql+pymysql://u:p@h/d")
    monkeypatch.setenv("WAREHOUSE", "mysql+pymysql://u:p@h/d")


def test_no_spec() -> None:
    with pytest.raises(SpecError, match="run needs a spec"):
        run()


def test_a_spec_without_sources() -> None:
    with pytest.raises(SpecError, match="names no sources"):
        run(ROOT / "examples" / "any_job" / "sink.yaml")


def test_a_spec_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(ORDERS.read_text().replace("pipeline:", "pipelines:"))
    with pytest.raises(SpecError, match="pipelines"):
        run(path)


def test_a_session_of_spark_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    with pytest.raises(SpecError, match="this process has a Spark session"):
        run(load_spec(ORDERS))


def test_a_spec_is_read_with_the_variables_of_this_process_or_with_others() -> None:
    assert (
        load_spec(str(ORDERS)).pipeline
        == load_spec(ORDERS, {"KAFKA": "b:2", "WAREHOUSE": "mysql+pymysql://u:p@h/e"}).pipeline
    )
