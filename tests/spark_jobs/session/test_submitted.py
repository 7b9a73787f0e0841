"""What a driver that spark-submit has started makes of its spec."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from connectors.spec import Spec, load_spec
from connectors.spec.spec import CHANGELOG
from eos.errors import SpecError
from spark_jobs.run.control import StopControl
from spark_jobs.run.stop_signals import StopSignals
from spark_jobs.session.settings import redaction, state_settings
from spark_jobs.session.submitted import is_submitted, settle

_SPEC = """
pipeline: words
checkpoint: {{location: {location}}}
spark: {{{spark}}}
sources:
  - {{name: words, connector: kafka, bootstrap_servers: "k:1", topics: [words], format: {{type: string}}}}
sinks: [{{name: t, from: words, connector: mysql, url: "mysql+pymysql://u:p@h/d", table: t, commit: two-phase}}]
"""


def _spec(folder: Path, spark: str = "", location: str = "./checkpoints") -> Spec:
    (folder / "words.yaml").write_text(_SPEC.format(spark=spark, location=location))
    return load_spec(folder / "words.yaml", {})


def test_what_was_given_holds_where_the_spec_says_nothing(tmp_path: Path) -> None:
    given = {"spark.master": "yarn", "spark.ui.enabled": "true", "spark.executor.cores": "2"}
    spec = _spec(tmp_path, "conf: {spark.executor.cores: 2, spark.cores.max: 8}")
    settled = settle(spec, given, Path("/elsewhere"))
    assert settled.spark.master == "yarn"
    assert settled.spark.conf == {"spark.ui.enabled": "true", "spark.executor.cores": "2", "spark.cores.max": "8"}
    assert settled.folder == spec.folder


@pytest.mark.parametrize(
    ("spark", "given", "message"),
    [
        ("master: yarn", {"spark.master": "local[2]"}, r"spark.master is yarn in the spec, and local\[2\] for"),
        ("conf: {spark.cores.max: 8}", {"spark.cores.max": "4"}, "spark.cores.max is 8 in the spec, and 4 for"),
        ("conf: {spark.driver.memory: 8g}", {}, "which only spark-submit can set: --conf spark.driver.memory=8g"),
        ("", {"spark.sql.session.timeZone": "CET"}, "needs --conf spark.sql.session.timeZone=UTC"),
        ("", {"spark.sql.streaming.stateStore.providerClass": "x"}, "exactly-once needs --conf"),
        ("", {"spark.submit.deployMode": "cluster"}, "would be gone with it"),
        ("", {"spark.kubernetes.submitInDriver": "true"}, "would be gone with it"),
    ],
)
def test_what_contradicts_is_refused(tmp_path: Path, spark: str, given: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        settle(_spec(tmp_path, spark), given, tmp_path)


def test_what_yarn_adds_to_a_path_holds(tmp_path: Path) -> None:
    key = "spark.executorEnv.PYTHONPATH"
    given = {key: "/mine<CPS>/mine<CPS>{{PWD}}/pyspark.zip"}
    assert settle(_spec(tmp_path, f"conf: {{{key}: /mine}}"), given, Path("/elsewhere")).spark.conf == given
    with pytest.raises(SpecError, match=f"{key} is /other in the spec"):
        settle(_spec(tmp_path, f"conf: {{{key}: /other}}"), given, Path("/elsewhere"))


def test_expressions_of_hidden_names_are_added_up(tmp_path: Path) -> None:
    spec = _spec(tmp_path, "conf: {spark.redaction.regex: mine}")
    given = redaction(spec, ["SINK"])
    again = redaction(settle(spec, given, Path("/elsewhere")))["spark.redaction.regex"]
    assert re.search(again, "of-mine")


def test_the_state_backend_of_the_spec_holds(tmp_path: Path) -> None:
    given = {CHANGELOG: "true"}
    assert state_settings(settle(_spec(tmp_path), given, Path("/elsewhere"))) == given
    spec = _spec(tmp_path)
    (tmp_path / "words.yaml").write_text((tmp_path / "words.yaml").read_text() + "state: {backend: rocksdb}\n")
    spec = load_spec(tmp_path / "words.yaml", {})
    assert state_settings(settle(spec, {}, Path("/elsewhere"))) == {CHANGELOG: "false"}
    with pytest.raises(SpecError, match=f"state.backend: rocksdb needs --conf {CHANGELOG}=false"):
        settle(spec, given, Path("/elsewhere"))


@pytest.mark.parametrize("key", ["spark.authenticate.secret", "spark.hadoop.warehouse"])
def test_a_secret_of_the_cluster_is_not_in_the_message(tmp_path: Path, key: str) -> None:
    """The spec knows its own value only, and masks no other."""
    (tmp_path / "of_spec").write_text("sesame-of-the-spec")
    spec = _spec(tmp_path, f'conf: {{{key}: "${{file:of_spec}}"}}')
    with pytest.raises(SpecError, match="for spark-submit") as raised:
        settle(spec, {key: "sesame-of-the-cluster"}, Path("/elsewhere"))
    assert f"{key} is *** in the spec, and *** for spark-submit" in spec.mask(raised.value.message)


def test_every_contradiction_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as raised:
        settle(_spec(tmp_path, "master: yarn"), {"spark.master": "k8s://h", "spark.speculation": "true"}, tmp_path)
    assert raised.value.message.count("\n- ") == 2


def test_a_location_elsewhere_outlives_the_container(tmp_path: Path) -> None:
    given = {"spark.master": "yarn", "spark.submit.deployMode": "cluster"}
    assert settle(_spec(tmp_path, location="/srv/words"), given, tmp_path).spark.master == "yarn"


def test_a_location_in_an_object_store_outlives_the_container(tmp_path: Path) -> None:
    """The scratch folder need not."""
    given = {"spark.master": "yarn", "spark.submit.deployMode": "cluster"}
    spec = _spec(tmp_path, location="s3://bucket/words, scratch: here")
    assert settle(spec, given, tmp_path).spark.master == "yarn"


def test_who_has_started_this_process() -> None:
    assert is_submitted({"PYSPARK_GATEWAY_PORT": "1"})
    assert not is_submitted({})


def test_one_signal_to_driver_and_jvm_is_one_request() -> None:
    control = StopControl()
    signals = StopSignals([control])
    signals.received(15, "JVM")
    signals.received(15, "driver")
    assert (control.requested, control.abort_running) == ("SIGTERM received", False)
    signals.received(15, "JVM")
    assert control.abort_running
