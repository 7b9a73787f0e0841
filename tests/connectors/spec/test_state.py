"""`state`: the backends that a spec can name, and Spark's setting beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.spec import Spec, SpecMistakesError, load_spec
from connectors.spec.spec import CHANGELOG
from eos.errors import SpecError
from spark_jobs.adapters.sink_spec import load_sink_spec
from spark_jobs.session.settings import state_settings

_SOURCES = """
sources: [{name: s, connector: kafka, bootstrap_servers: "h:1", topics: [t], format: {type: raw}}]
"""
_SPEC = """
pipeline: p
checkpoint: {location: ./checkpoints}
sinks: [{name: w, FROMconnector: sqlite, path: ./w.db, table: t, commit: write-ahead-log}]
"""


def _load(folder: Path, more: str = "") -> Spec:
    (folder / "p.yaml").write_text(_SPEC.replace("FROM", "from: s, ") + _SOURCES + more)
    return load_spec(folder / "p.yaml", {})


@pytest.mark.parametrize(
    ("more", "changelog"),
    [
        ("", "false"),
        ("state: {backend: rocksdb}", "false"),
        ("state: {backend: rocksdb-changelog}", "true"),
        (f'spark: {{conf: {{{CHANGELOG}: "true"}}}}', "true"),
        (f'state: {{}}\nspark: {{conf: {{{CHANGELOG}: "true"}}}}', "true"),
        (f'state: {{backend: rocksdb-changelog}}\nspark: {{conf: {{{CHANGELOG}: "true"}}}}', "true"),
    ],
)
def test_a_backend_is_a_setting_of_spark(tmp_path: Path, more: str, changelog: str) -> None:
    assert state_settings(_load(tmp_path, more)) == {CHANGELOG: changelog}


def test_a_backend_that_a_losing_task_may_overwrite_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecMistakesError, match=r"no checkpoint format 2.* could overwrite.* rocksdb-changelog"):
        _load(tmp_path, "state: {backend: hdfs}")
    with pytest.raises(SpecMistakesError, match="rocksdb"):
        _load(tmp_path, "state: {backend: memory}")


def test_two_backends_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecMistakesError, match=f"leave {CHANGELOG} out of spark.conf"):
        _load(tmp_path, f'state: {{backend: rocksdb}}\nspark: {{conf: {{{CHANGELOG}: "true"}}}}')


def test_a_job_of_ones_own_has_the_backend_of_its_session(tmp_path: Path) -> None:
    path = tmp_path / "sink.yaml"
    path.write_text(_SPEC.replace("FROM", ""))
    assert not load_sink_spec(path).has_backend
    path.write_text(path.read_text() + "state: {backend: rocksdb-changelog}\n")
    with pytest.raises(SpecError, match=r"has state\.backend") as refused:
        load_sink_spec(path)
    assert CHANGELOG in refused.value.remedy
