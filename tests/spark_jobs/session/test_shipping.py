"""What goes to the workers of a cluster, and what `spark.master` decides."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from connectors.spec import Spec, load_spec
from eos.errors import SpecError
from spark_jobs.session.master import check_sinks, is_local, is_loopback, worker_python
from spark_jobs.session.shipping import write_archive

_CLUSTER = "spark://spark.example:7077"
_STEPS = "transforms: [{name: shouted, python: 'shout:shouted', from: words}]"
_SPEC = """
pipeline: words
checkpoint: {{location: ./checkpoints}}
spark: {{master: "{master}", conf: {{{conf}}}}}
sources:
  - {{name: words, connector: kafka, bootstrap_servers: "localhost:9092", topics: [words], format: {{type: string}}}}
{steps}
sinks: [{{name: table, from: {last}, connector: sqlite, path: ./words.db, table: words, commit: write-ahead-log}}]
"""


def _spec(folder: Path, *, master: str = _CLUSTER, conf: str = "", steps: str = _STEPS) -> Spec:
    path = folder / "words.yaml"
    path.write_text(_SPEC.format(master=master, conf=conf, steps=steps, last="shouted" if steps else "words"))
    return load_spec(path, {})


@pytest.mark.parametrize(
    ("master", "local", "loopback"),
    [
        ("local", True, True),
        ("local[*]", True, True),
        ("local[2,4]", True, True),
        ("local-cluster[2,1,1024]", False, True),
        ("spark://127.0.0.1:7077", False, True),
        (_CLUSTER, False, False),
        ("yarn", False, False),
        ("k8s://https://10.0.0.1:6443", False, False),
    ],
)
def test_where_tasks_run(master: str, local: bool, loopback: bool) -> None:
    assert (is_local(master), is_loopback(master)) == (local, loopback)


def test_the_interpreter_of_tasks(tmp_path: Path) -> None:
    environ = {"PYSPARK_PYTHON": "/opt/python"}
    assert worker_python(_spec(tmp_path, master="local[2]"), environ) == sys.executable
    assert worker_python(_spec(tmp_path), {}) == sys.executable
    assert worker_python(_spec(tmp_path), environ) == "/opt/python"
    assert worker_python(_spec(tmp_path, conf="spark.pyspark.python: /srv/python"), environ) == "/srv/python"


def test_rows_that_wait_in_files_of_a_worker_are_refused(tmp_path: Path) -> None:
    check_sinks(_spec(tmp_path, master="spark://localhost:7077"))
    with pytest.raises(SpecError, match="other machines"):
        check_sinks(_spec(tmp_path))


def test_the_archive_is_all_that_a_worker_needs_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "shout.py").write_text("import voice.loud\n")
    (tmp_path / "voice").mkdir()
    (tmp_path / "voice" / "__init__.py").write_text("")
    (tmp_path / "voice" / "loud.py").write_text("")
    (tmp_path / "twophase.py").write_text("raise AssertionError('it hides the project')\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "many.csv").write_text("1,2,3\n")
    archive = write_archive(tmp_path / "modules.zip", _spec(tmp_path))
    names = "spark_jobs.batch.writing, spark_jobs.query.source, connectors.kafka, connectors.sql.mysql.sink, "
    names += "shout, voice.loud"
    # -S: neither an installed project nor an editable one; -I: not this folder either.
    code = (
        f"import sys; sys.path[:0] = [{str(archive)!r}]; sys.path += {sys.path!r}; import {names};"
        f"assert all({str(archive)!r} in sys.modules[name].__file__ for name in {names.split(', ')!r})"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, cwd=tmp_path)


def test_without_a_python_step_nothing_beside_the_spec_is_sent(tmp_path: Path) -> None:
    (tmp_path / "notes.py").write_text("")
    with zipfile.ZipFile(write_archive(tmp_path / "modules.zip", _spec(tmp_path, steps=""))) as archive:
        found = {name.split("/")[0] for name in archive.namelist()}
    assert {name for name in found if not name.endswith(".dist-info")} == {
        "eos",
        "wal",
        "twophase",
        "connectors",
        "spark_jobs",
    }


def test_the_archive_has_the_entry_points_of_the_project(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "modules.zip", _spec(tmp_path, steps=""))
    code = (
        f"import sys; sys.path[:0] = [{str(archive)!r}]; sys.path += {sys.path!r};"
        "from connectors.api.plugins import SINKS, find;"
        f"found = find(SINKS, 'mysql'); assert found.is_built_in; assert found.origin.startswith({str(archive)!r})"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, cwd=tmp_path)
