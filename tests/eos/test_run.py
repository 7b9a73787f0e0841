"""`eos.run` refuses before anything is started; integration_tests/test_program.py runs pipelines."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkException

from eos import SpecError, load_spec, run
from eos.errors import SparkUnavailableError
from spark_jobs.cli import program
from spark_jobs.session import spark_session as session_module
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


class _Started(PySparkException):
    """Raised where the JVM would start."""


def test_a_failed_start_of_spark_leaves_the_process_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's processes inherit variables that this process does not keep."""
    inherited: dict[str, str] = {}

    def launch(_conf: Mapping[str, str]) -> None:
        inherited.update(os.environ)
        os.environ["PYSPARK_SUBMIT_ARGS"] = "--conf a=b pyspark-shell"
        raise _Started("no JVM")

    monkeypatch.setattr(session_module, "_launch", launch)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PYTHONPATH", "/srv/lib")
    spec = tmp_path / "orders.yaml"
    sqlite = "connector: sqlite, path: ./o.db, table: t, commit: write-ahead-log"
    spec.write_text(
        "pipeline: orders\ncheckpoint: {location: ./state}\nspark: {master: 'local[1]'}\n"
        'sources: [{name: o, connector: kafka, bootstrap_servers: "k:1", topics: [o], format: {type: string}}]\n'
        f"sinks: [{{name: t, from: o, {sqlite}}}]\n"
    )
    before = dict(os.environ)
    with pytest.raises(SparkUnavailableError, match="no JVM"):
        run(spec)
    assert inherited["SPARK_HOME"]
    assert inherited["PYTHONPATH"].endswith("/srv/lib")
    assert inherited.keys() - before.keys() >= {"SPARK_HOME", "EOS_TASK_MODULES"}
    assert dict(os.environ) == before


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_leaves_the_process_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    (tmp_path / "own").mkdir()

    def pipelines(specs: object, *_args: object, **_options: object) -> None:
        del specs
        os.environ["SPARK_BUFFER_SIZE"] = "65536"
        os.environ["OTHER_THREAD"] = "1"
        sys.path[:0] = [str(ORDERS.parent), str(tmp_path / "deleted"), str(tmp_path / "own")]
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        if fails:
            raise SpecError("wrong")

    monkeypatch.setattr(program, "run_pipelines", pipelines)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("OTHER_THREAD", "")
    monkeypatch.delenv("SPARK_BUFFER_SIZE", raising=False)
    monkeypatch.setenv("SPARK_AUTH_SOCKET_TIMEOUT", "7")
    path, level, variables = [*sys.path], logging.getLogger("py4j").level, dict(os.environ)
    if fails:
        with pytest.raises(SpecError, match="wrong"):
            run(ORDERS)
    else:
        run(ORDERS)
    assert sys.path == [str(tmp_path / "own"), *path]
    assert logging.getLogger("py4j").level == level
    assert dict(os.environ) == {**variables, "OTHER_THREAD": "1"}
