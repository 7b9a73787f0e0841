"""The line of spark-submit: what it says, and what is refused before it runs."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from connectors.spec import Spec, load_spec
from eos.errors import SpecError
from spark_jobs.cli import run_command_line
from spark_jobs.session.private_settings import settings_text
from spark_jobs.submit import Request, Submission, submission
from spark_jobs.submit.line import APPLICATION

_SPEC = """
pipeline: words
checkpoint: {{location: {location}}}
{spark}
sources:
  - {{name: words, connector: kafka, bootstrap_servers: "k:1", topics: [words], format: {{type: string}}}}
transforms: [{{name: steps, {step}}}]
sinks: [{{name: t, from: steps, connector: mysql, url: "${{env:URL}}", table: t, commit: two-phase}}]
"""
_SQL = "sql: SELECT value FROM words"
_PYTHON = "python: 'own:steps', from: words"
_URL = "mysql+pymysql://u:secret@h/d"
_CLAIM = "spark.kubernetes.driver.volumes.persistentVolumeClaim.data.mount.path"
_IMAGE = ("--conf", "spark.kubernetes.container.image=i", "--conf", "spark.kubernetes.file.upload.path=s3a://b/u")
_EOS = "from spark_jobs.cli import main; main()"
_CLOSED = "spark.authenticate=true\nspark.network.crypto.enabled=true\n"
_PROTECTED = "spark: {conf: {spark.authenticate: true, spark.network.crypto.enabled: true}}"
_ENVIRON = {"SPARK_HOME": "/opt/spark"}


def _spec(folder: Path, spark: str = "", location: str = "./checkpoints", step: str = _SQL) -> Spec:
    (folder / "words.yaml").write_text(_SPEC.format(spark=spark, location=location, step=step))
    return load_spec(folder / "words.yaml", {"URL": _URL})


def _submission(folder: Path, *options: str, spark: str = "", location: str = "", **asked: Any) -> Submission:
    spec = _spec(folder, spark or _PROTECTED, location or "./checkpoints", asked.pop("step", _SQL))
    request = Request(folder / "words.yaml", options=options, **asked)
    return submission(spec, request, _ENVIRON, frozenset({"URL"}))


def test_in_client_mode(tmp_path: Path) -> None:
    """The driver's Python is this one; what the JVM takes only at its start comes from the spec."""
    conf = {"spark.authenticate": "true", "spark.authenticate.secret": "s e\\c", "spark.driver.memory": "2g"}
    spark = "spark: " + json.dumps({"master": "spark://127.0.0.1:7077", "conf": conf})
    made = _submission(tmp_path, "--queue", "etl", spark=spark, arguments=("--until-caught-up",))
    assert made.command(Path("FILE")) == (
        *("/opt/spark/bin/spark-submit", "--master", "spark://127.0.0.1:7077", "--deploy-mode", "client"),
        *("--name", "eos words", "--properties-file", "FILE", "--load-spark-defaults"),
        *("--queue", "etl", str(APPLICATION), str(tmp_path / "words.yaml"), "--until-caught-up"),
    )
    *written, hidden, driver = made.settings.decode().splitlines()
    assert [*written, driver] == [
        "spark.authenticate=true",
        "spark.authenticate.secret=s\\u0020e\\u005cc",
        "spark.driver.memory=2g",
        f"spark.pyspark.driver.python={sys.executable}",
    ]
    assert hidden.startswith("spark.redaction.regex=")
    assert made.folder is None
    assert made.variables["SPARK_LOCAL_IP"] == "127.0.0.1"
    settings = tmp_path / "checkpoints" / "log4j2.properties"
    assert made.variables["SPARK_SUBMIT_OPTS"] == f'-Dlog4j2.configurationFile="{settings}"'
    assert settings.is_file()
    assert made.conditions == ()


def test_a_packed_environment(tmp_path: Path) -> None:
    """Where the driver starts, the path that workers have leads to its own Python."""
    archive = tmp_path / "my environment.tar.gz"
    archive.touch()
    made = _submission(tmp_path, master="yarn", environment=str(archive))
    assert made.others[made.others.index("--archives") + 1] == f"file://{tmp_path}/my%20environment.tar.gz#environment"
    assert b"spark.pyspark.python=environment/bin/python\n" in made.settings
    made.prepare()
    assert made.folder == tmp_path / "checkpoints" / "submit"
    assert sys.executable in (made.folder / "environment" / "bin" / "python").read_text()
    assert all(each.stat().st_mode & 0o077 == 0 for each in (made.folder, made.folder / "environment" / "bin"))
    assert made.line().startswith(f"cd {made.folder} && SPARK_SUBMIT_OPTS=")


def test_files_are_those_of_the_folder_where_the_command_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a packed environment spark-submit is started in another one."""
    monkeypatch.chdir(tmp_path)
    for name in ("environment.tar.gz", "driver.conf"):
        (tmp_path / name).write_text(_CLOSED)
    options = ("--properties-file", "driver.conf", "--jars=a.jar,/opt/b.jar,hdfs://c.jar", "--queue", "driver.conf")
    made = _submission(tmp_path, *options, master="yarn", environment="environment.tar.gz", spark="spark: {conf: {}}")
    assert made.settings.decode().startswith(f"{_CLOSED}\n\nspark.redaction.regex=")
    assert "\nspark.pyspark.python=" in made.settings.decode()
    assert made.others[2:5] == (
        f"--jars={tmp_path}/a.jar,/opt/b.jar,hdfs://c.jar",
        *("--queue", "driver.conf"),
    )


def test_in_cluster_mode(tmp_path: Path) -> None:
    """The spec is sent, and the modules beside it; what nobody can see from here is said."""
    (tmp_path / "own.py").touch()
    given = ("--conf", "spark.yarn.appMasterEnv.URL=u")
    where = {"deploy_mode": "cluster", "master": "yarn", "location": "/srv/words", "step": _PYTHON}
    made = _submission(tmp_path, *given, **where)
    command = list(made.others)
    assert command[command.index("--files") + 1] == str(tmp_path / "words.yaml")
    assert command[command.index("--py-files") + 1] == str(tmp_path / "own.py")
    assert command[-2:] == [str(APPLICATION), "words.yaml"]
    assert (made.folder, made.variables) == (None, {})
    assert "/srv/words is the same local disk wherever the driver starts" in made.conditions[0]


def test_on_kubernetes(tmp_path: Path) -> None:
    given = (*_IMAGE, "--conf", "spark.kubernetes.driver.secretKeyRef.URL=s:url", "--conf", f"{_CLAIM}=/srv")
    where = {"deploy_mode": "cluster", "master": "k8s://https://h", "location": "/srv/words"}
    made = _submission(tmp_path, *given, **where)
    assert made.others[-2 - len(given) : -2] == given
    assert made.settings_file == tmp_path / "words.spark.conf", "the location is elsewhere"


def test_on_kubernetes_with_the_location_in_an_object_store(tmp_path: Path) -> None:
    """No claim is needed, and no condition is named."""
    given = (*_IMAGE, "--conf", "spark.kubernetes.driver.secretKeyRef.URL=s:url")
    where = {"deploy_mode": "cluster", "master": "k8s://https://h", "location": "s3://bucket/words, scratch: here"}
    made = _submission(tmp_path, *given, **where)
    assert [each for each in made.conditions if "local disk" in each] == []


@pytest.mark.parametrize(
    ("asked", "options", "message"),
    [
        ({}, (), "neither the spec nor the command line names a cluster"),
        ({"master": "local[2]"}, (), r"local\[2\] is this machine"),
        ({"spark": "spark: {master: yarn}", "master": "spark://h:7077"}, (), "spark.master is yarn in the spec"),
        ({"master": "yarn"}, ("--master", "local"), "writes --master itself"),
        ({"master": "yarn"}, ("--archives=a.zip",), "writes --archives itself"),
        ({"master": "yarn", "environment": "away.tar.gz"}, (), "away.tar.gz is not there"),
        (
            {"master": "yarn", "environment": "hdfs://e.tar.gz", "spark": "spark: {conf: {spark.pyspark.python: p}}"},
            (),
            "--environment brings the workers' Python, and spark.pyspark.python is p",
        ),
        ({"master": "spark://h:7077", "deploy_mode": "cluster"}, (), "runs no Python driver of its own"),
        ({"master": "yarn", "deploy_mode": "cluster"}, (), "is in the spec's folder"),
        ({"master": "yarn", "deploy_mode": "cluster", "location": "/srv/w"}, (), "the driver will not have URL"),
        (
            {"master": "k8s://h", "deploy_mode": "cluster", "location": "/srv/w"},
            (),
            "Kubernetes needs spark.kubernetes.container.image and spark.kubernetes.file.upload.path",
        ),
        (
            {"master": "k8s://h", "deploy_mode": "cluster", "location": "/srv/w"},
            (*_IMAGE, "--conf", f"{_CLAIM}=/data"),
            r"/srv/w\) is on no volume of the driver's",
        ),
    ],
)
def test_refused(tmp_path: Path, asked: dict[str, str], options: tuple[str, ...], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        _submission(tmp_path, *options, **asked)


def test_settings_of_a_properties_file_count(tmp_path: Path) -> None:
    """Secrets had better stand there than on a command line."""
    (tmp_path / "driver.conf").write_text(f"# a comment\nspark.yarn.appMasterEnv.URL  {_URL}\n")
    options = ("--properties-file", str(tmp_path / "driver.conf"))
    _submission(tmp_path, *options, deploy_mode="cluster", master="yarn", location="/srv/words")


def test_packages_beside_the_spec_are_not_sent_to_a_driver(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "__init__.py").touch()
    asked = {"deploy_mode": "cluster", "master": "yarn", "location": "/srv/words", "step": _PYTHON}
    with pytest.raises(SpecError, match="own beside the spec"):
        _submission(tmp_path, "--conf", "spark.yarn.appMasterEnv.URL=u", **asked)


def test_a_dry_run_prints_the_line_without_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("URL", _URL)
    _spec(tmp_path, _PROTECTED.replace("}}", ', spark.x: "${env:URL}"}}'))
    arguments = ["submit", str(tmp_path / "words.yaml"), "--master", "yarn", "--dry-run"]
    assert run_command_line([*arguments, "--", "--conf", f"spark.executorEnv.URL={_URL}"]) == 0
    line = capsys.readouterr().out
    assert "spark-submit --master yarn --deploy-mode client" in line
    assert "secret" not in line
    assert run_command_line([*arguments, "--json"]) == 0
    command = json.loads(capsys.readouterr().out)["command"]
    assert command[1:3] == ["--master", "yarn"]
    assert command[-1] == str(tmp_path / "words.yaml")
    assert run_command_line([*arguments, "--standby", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["command"][-2:] == [str(tmp_path / "words.yaml"), "--standby"]
    settings = Path(command[command.index("--properties-file") + 1])
    assert f"spark.x={_URL}" == settings.read_text().splitlines()[2].replace("\\u003a", ":")
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600


def test_settings_are_no_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that becomes spark-submit leaves it a file that nobody else can open, and that has no name."""
    monkeypatch.setenv("URL", _URL)
    _spec(tmp_path, _PROTECTED.replace("}}", ', spark.x: "${env:URL}"}}'))
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "spark-submit"
    program.write_text('#!/bin/sh\necho "$@" > "$0.arguments"\nwhile [ "$1" != --properties-file ]; do shift; done\n')
    with program.open("a") as script:
        script.write('cat "$2" > "$0.first"; cat "$2" > "$0.second"\n')
    program.chmod(0o755)
    line = [sys.executable, "-c", _EOS, "submit", str(tmp_path / "words.yaml"), "--master", "yarn"]
    subprocess.run(line, check=True, env={**os.environ, "SPARK_HOME": str(home)})
    assert "secret" not in (home / "bin" / "spark-submit.arguments").read_text()
    for read in ("first", "second"):
        assert "u\\u003asecret@h" in (home / "bin" / f"spark-submit.{read}").read_text()
    assert not (tmp_path / "checkpoints" / "submit").exists()


def test_settings_count_more_than_those_of_the_users_file(tmp_path: Path) -> None:
    """spark-submit takes one file, and of two lines for a setting Java takes the last."""
    file = tmp_path / "mine.conf"
    file.write_bytes(b"spark.a mine\\")
    content, options = settings_text({"spark.a": "1"}, ["--queue", "q", f"--properties-file={file}", "pyspark-shell"])
    assert (content, options) == (b"spark.a mine\\\n\nspark.a=1\n", ["--queue", "q", "pyspark-shell"])
    assert settings_text({}, ["--queue", "q"]) == (b"", ["--load-spark-defaults", "--queue", "q"])
    with pytest.raises(SpecError, match=r"away\.conf: cannot be read"):
        settings_text({}, ["--properties-file", str(tmp_path / "away.conf")])


def test_a_cluster_is_refused_that_is_open(tmp_path: Path) -> None:
    for master in ("yarn", "spark://h:7077"):
        with pytest.raises(SpecError, match=r"spark\.authenticate is off.*not encrypted") as raised:
            _submission(tmp_path, master=master, spark="spark: {conf: {spark.x: y}}")
        assert "spark.allow_unauthenticated: true" in raised.value.remedy
    accepted = "spark: {allow_unauthenticated: true, allow_unencrypted: true}"
    assert _submission(tmp_path, master="spark://h:7077", spark=accepted).others
