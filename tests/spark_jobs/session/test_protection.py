"""Which settings of Spark's leave its ports open, or its traffic to be read, and who is told."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark import cloudpickle

from connectors.spec import Spec, load_spec
from eos.errors import SpecError
from spark_jobs.adapters.formats import eos_sink
from spark_jobs.cli import run_command_line
from spark_jobs.session.properties import as_properties, read_properties
from spark_jobs.session.protection import SPARKS_OWN, findings, gaps, gaps_of, local_protection, require
from spark_jobs.session.settings import redaction
from spark_jobs.session.spark_session import spark_session

_SPEC = """\
pipeline: closed
checkpoint: {location: ./c}
%s
sources:
  - {name: s, connector: kafka, bootstrap_servers: "127.0.0.1:1", topics: [t], format: {type: string}}
sinks: [{name: o, from: s, connector: mysql, url: "mysql+pymysql://u:p@127.0.0.1/d", table: t, commit: two-phase}]
"""
_NOT_AUTHENTICATED, _NO_SECRET, _NOT_ENCRYPTED = "spark.authenticate is off", "there is no", "is not encrypted"
_ON = {"spark.authenticate": "true"}
_ENCRYPTED = {"spark.network.crypto.enabled": "True"}
_WITH_SECRET = {**_ON, "spark.authenticate.secret": "s"}


def load(folder: Path, spark: str = "") -> Spec:
    (folder / "spec.yaml").write_text(_SPEC % spark)
    return load_spec(folder / "spec.yaml", {"URL": "mysql+pymysql://u:sesame@h/d"})


@pytest.mark.parametrize(
    ("master", "conf", "missing"),
    [
        ("local[*]", {}, []),
        ("local", {"spark.authenticate": "false"}, [_NOT_AUTHENTICATED]),
        ("local[2]", SPARKS_OWN, [_NOT_AUTHENTICATED]),
        ("local[2]", _ON, []),
        ("spark://127.0.0.1:7077", {}, [_NOT_AUTHENTICATED]),
        ("spark://127.0.0.1:7077", _ON, [_NO_SECRET]),
        ("spark://localhost:7077", _WITH_SECRET, []),
        ("local-cluster[2,1,1024]", _WITH_SECRET, []),
        ("spark://h:7077", {}, [_NOT_AUTHENTICATED, _NOT_ENCRYPTED]),
        ("spark://h:7077", _WITH_SECRET, [_NOT_ENCRYPTED]),
        ("spark://h:7077", {**_WITH_SECRET, **_ENCRYPTED}, []),
        ("spark://h:7077", {**_WITH_SECRET, "spark.ssl.rpc.enabled": "true"}, []),
        ("spark://h:7077", {**_WITH_SECRET, "spark.network.crypto.enabled": "false"}, [_NOT_ENCRYPTED]),
        ("yarn", _ENCRYPTED, [_NOT_AUTHENTICATED, _NOT_ENCRYPTED]),
        ("yarn", {**_ON, **_ENCRYPTED}, []),
        ("k8s://https://h", {**_ON, **_ENCRYPTED}, []),
    ],
)
def test_what_is_missing(master: str, conf: dict[str, str], missing: list[str]) -> None:
    found = [gap.what for gap in gaps(master, conf)]
    assert len(found) == len(missing)
    assert all(words in what for words, what in zip(missing, found, strict=True))


def test_a_local_master_is_closed_unless_the_spec_says_otherwise() -> None:
    assert local_protection("local[2]", {})["spark.authenticate"] == "true"
    assert local_protection("local[2]", {"spark.authenticate": "false"}) == {}, "Spark refuses to encrypt then"
    assert local_protection("spark://h:7077", {}) == {}


def test_a_start_is_refused(tmp_path: Path) -> None:
    spec = load(tmp_path, "spark: {master: 'spark://h:7077'}")
    with pytest.raises(SpecError, match=r"spark\.authenticate is off.*not encrypted"):
        spark_session(spec)


def test_the_spec_accepts_each_by_its_name(tmp_path: Path) -> None:
    master = "spark: {master: 'spark://h:7077', %s}"
    for accepted, refused in (
        ("allow_unauthenticated: true", "not encrypted"),
        ("allow_unencrypted: true", "authenticate is off"),
    ):
        spec = load(tmp_path, master % accepted)
        with pytest.raises(SpecError, match=refused):
            require(gaps_of(spec, {}), spec.spark)
        assert [each.fatal for each in findings(spec, {})].count(True) == 1
    spec = load(tmp_path, master % "allow_unauthenticated: true, allow_unencrypted: true")
    require(gaps_of(spec, {}), spec.spark)
    assert [(each.ok, each.fatal) for each in findings(spec, {})] == [(False, False)] * 2
    spec = load(tmp_path, master % "allow_unauthenticated: true, conf: {spark.authenticate: true}")
    with pytest.raises(SpecError, match="there is no"):
        require(gaps_of(spec, {}), spec.spark)


def test_settings_of_spark_defaults_count(tmp_path: Path) -> None:
    conf = (
        "# of the cluster\nspark.authenticate true\nspark.authenticate.secret  s\nspark.network.crypto.enabled=true\n"
    )
    (tmp_path / "spark-defaults.conf").write_text(conf)
    spec = load(tmp_path, "spark: {master: 'spark://h:7077'}")
    assert gaps_of(spec, {"SPARK_CONF_DIR": str(tmp_path)}) == []
    assert len(gaps_of(spec, {"SPARK_HOME": str(tmp_path)})) == 2
    (tmp_path / "conf").symlink_to(tmp_path)
    assert gaps_of(spec, {"SPARK_HOME": str(tmp_path)}) == []


def test_validate_and_doctor_name_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load(tmp_path, "spark: {master: 'spark://h:7077', allow_unencrypted: true}")
    path = str(tmp_path / "spec.yaml")
    assert run_command_line(["validate", path, "--json"]) == 0
    told = [each["what"] for each in json.loads(capsys.readouterr().out)["exposed"] if each["of"] == "spark"]
    assert [what.partition("; ")[2].partition(":")[0] for what in told] == [
        "a start is refused",
        "accepted by spark.allow_unencrypted",
    ]
    assert run_command_line(["validate", path]) == 0
    assert "a start is refused" in " ".join(capsys.readouterr().out.split())
    assert run_command_line(["doctor", path, "--json"]) == 1
    found = [each for each in json.loads(capsys.readouterr().out)["findings"] if each["check"] == "Spark's traffic"]
    assert [(each["ok"], each["fatal"]) for each in found] == [(False, True), (False, False)]


def test_a_format_of_an_open_session_is_refused(tmp_path: Path) -> None:
    """Processes of Spark's have the class, and no session: what is missing comes with it."""
    spec = "pipeline: p\ncheckpoint: {location: ./c}\n%s\nsinks:\n"
    spec += "  - {name: t, connector: sqlite, path: ./t.db, table: rows, commit: write-ahead-log}\n"
    sink = cloudpickle.loads(cloudpickle.dumps(eos_sink(gaps("local[2]", SPARKS_OWN))))  # type: ignore[no-untyped-call]
    options = {"spec": str(tmp_path / "s.yaml"), "checkpointLocation": str(tmp_path)}
    (tmp_path / "s.yaml").write_text(spec % "")
    with pytest.raises(SpecError, match=r"spark\.authenticate is off"):
        sink(options).streamWriter(None, overwrite=False)
    (tmp_path / "s.yaml").write_text(spec % "spark: {allow_unauthenticated: true}")
    assert sink(options).streamWriter(None, overwrite=False)


def test_settings_are_read_as_they_were_written(tmp_path: Path) -> None:
    plain = {"spark.a": "1", "spark.b-c": "/tmp/a_b", "spark.d": "a,b+c@d"}
    (tmp_path / "f").write_text(as_properties(plain))
    assert read_properties(tmp_path / "f") == plain
    assert as_properties({"k:1": " ü\\\n#="}) == "k\\u003a1=\\u0020\\u00fc\\u005c\\u000a\\u0023\\u003d\n"


def test_settings_with_secrets_are_hidden_by_name(tmp_path: Path) -> None:
    conf = 'spark.executorEnv.WAREHOUSE: "${env:URL}", spark.redaction.regex: "(?i)mine", spark.cores.max: "2"'
    pattern = redaction(load(tmp_path, f"spark: {{conf: {{{conf}}}}}"))["spark.redaction.regex"]
    for key in ("spark.executorEnv.WAREHOUSE", "spark.x.Passphrase", "a.key.pem", "x.Mine", "fs.s3a.access.key"):
        assert re.search(pattern, key), key
    for key in ("spark.cores.max", "spark.executorEnv.WAREHOUSES", "spark-executorEnv-WAREHOUSE"):
        assert not re.search(pattern, key), key
    assert "sesame" not in pattern


def test_variables_of_a_submitted_spec_are_hidden_where_a_cluster_logs_them(tmp_path: Path) -> None:
    pattern = redaction(load(tmp_path, ""), {"WAREHOUSE"})["spark.redaction.regex"]
    for key in ("WAREHOUSE", "spark.yarn.appMasterEnv.WAREHOUSE", "spark.executorEnv.WAREHOUSE"):
        assert re.search(pattern, key), key
    assert not re.search(pattern, "MY_WAREHOUSE")
