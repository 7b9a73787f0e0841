"""`eos.yaml`: defaults for the specs beside it and below it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest

from connectors.spec import Spec, SpecMistakesError, load_spec
from eos.errors import SpecError
from spark_jobs.cli import run_command_line

SPEC: Final = """\
pipeline: orders
sources:
  - {name: orders, connector: kafka, bootstrap_servers: h:9092, topics: [orders], format: {type: string}}
sinks:
  - {name: out, from: orders, connector: mysql, url: "mysql+pymysql://u:p@h/d", table: t, commit: two-phase}
"""
DEFAULTS: Final = """\
checkpoint: {location: "/var/eos/${pipeline}", interval: 7s, retained: 3}
restart: {strategy: fixed-delay, attempts: 4, delay: 9s}
spark: {conf: {spark.sql.shuffle.partitions: "6"}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the specs; the defaults are two folders above it."""
    (tmp_path / "eos.yaml").write_text(DEFAULTS)
    folder = tmp_path / "teams" / "shop"
    folder.mkdir(parents=True)
    return folder


def load(folder: Path, spec: str = SPEC) -> Spec:
    (folder / "orders.yaml").write_text(spec)
    return load_spec(folder / "orders.yaml", {})


def test_defaults_above_the_spec(folder: Path) -> None:
    spec = load(folder)
    assert spec.checkpoint.location == Path("/var/eos/orders")
    assert (spec.checkpoint.interval_s, spec.checkpoint.retained, spec.restart.model_dump()["attempts"]) == (7, 3, 4)
    assert spec.spark.conf == {"spark.sql.shuffle.partitions": "6"}
    assert [path.name for path in spec.included] == ["eos.yaml"]


def test_the_spec_its_profile_and_its_includes_take_precedence(folder: Path) -> None:
    (folder / "common.yaml").write_text("checkpoint: {interval: 5s, retained: 4}")
    more = "include: common.yaml\ncheckpoint: {interval: 3s}\nprofiles: {prod: {restart: {attempts: 8}}}\n"
    spec = load_spec_with_profile(folder, more + SPEC)
    assert (spec.checkpoint.interval_s, spec.checkpoint.retained, spec.restart.model_dump()["attempts"]) == (3, 4, 8)
    assert spec.checkpoint.location == Path("/var/eos/orders")


def load_spec_with_profile(folder: Path, text: str) -> Spec:
    (folder / "orders.yaml").write_text(text)
    return load_spec(folder / "orders.yaml", {"EOS_PROFILE": "prod"})


def test_the_nearest_file_counts_alone(folder: Path) -> None:
    (folder / "eos.yaml").write_text("checkpoint: {location: /nearest}")
    spec = load(folder)
    assert spec.checkpoint.location == Path("/nearest")
    assert spec.checkpoint.retained == 10


@pytest.mark.parametrize(("key", "value"), [("sources", "[]"), ("pipeline", "p"), ("checkpoints", "{}")])
def test_other_keys_are_a_mistake_with_the_file_and_the_line(folder: Path, key: str, value: str) -> None:
    (folder / "eos.yaml").write_text(f"restart: {{strategy: none}}\n{key}: {value}\n")
    with pytest.raises(SpecMistakesError) as caught:
        load(folder)
    assert f"{folder / 'eos.yaml'}:2: {key}: " in str(caught.value)
    assert "rename the file" in str(caught.value)


def test_a_wrong_value_names_the_file_of_defaults(folder: Path) -> None:
    (folder / "eos.yaml").write_text("checkpoint:\n  location: /there\n  interval: soon\n")
    with pytest.raises(SpecMistakesError, match=f"{folder / 'eos.yaml'}:3: checkpoint.interval: "):
        load(folder)


def test_a_spec_may_have_this_name(tmp_path: Path) -> None:
    path = tmp_path / "eos.yaml"
    path.write_text(SPEC + "checkpoint: {location: /own}\n")
    assert load_spec(path, {}).checkpoint.location == Path("/own")


def test_files_of_strangers_are_not_looked_at(folder: Path, tmp_path: Path) -> None:
    """Anybody could create the file in a folder such as /tmp."""
    between = tmp_path / "teams"
    between.chmod(0o1777)
    (between / "eos.yaml").write_text("checkpoint: {location: /evil}")
    with pytest.raises(SpecMistakesError, match="missing key 'checkpoint'"):
        load(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_folder_of_another_user_ends_the_search(folder: Path, tmp_path: Path) -> None:
    os.chown(tmp_path / "teams", 12345, 12345)
    with pytest.raises(SpecMistakesError, match="missing key 'checkpoint'"):
        load(folder)


def test_the_current_folder_is_not_above_the_spec(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the pipeline would have another location, and so other decisions, from another folder."""
    below = folder / "notes"
    below.mkdir()
    (below / "eos.yaml").write_text("checkpoint: {location: /of/notes}")
    load(folder)
    monkeypatch.chdir(below)
    assert load_spec(Path("../orders.yaml"), {}).checkpoint.location == Path("/var/eos/orders")


def test_a_file_that_every_user_may_write_is_refused(folder: Path) -> None:
    (folder / "eos.yaml").write_text("checkpoint: {location: /evil}")
    (folder / "eos.yaml").chmod(0o666)
    with pytest.raises(SpecError, match="every user may write it") as caught:
        load(folder)
    assert "change its owner" in str(caught.value.remedy)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_refused(folder: Path) -> None:
    """A folder of a group: each of its users may create the file."""
    folder.chmod(0o775)
    (folder / "eos.yaml").write_text("spark: {conf: {spark.plugins: evil.Plugin}}")
    os.chown(folder / "eos.yaml", 12345, 12345)
    with pytest.raises(SpecError, match="belongs to another user"):
        load(folder)


def test_a_volume_that_is_read_only_has_no_other_writer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a ConfigMap has mode 0777."""
    (folder / "eos.yaml").write_text("checkpoint: {location: /of/the/map}")
    folder.chmod(0o777)
    with pytest.raises(SpecMistakesError, match="missing key 'checkpoint'"):
        load(folder)
    monkeypatch.setattr("os.statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    assert load(folder).checkpoint.location == Path("/of/the/map")


def test_commands_take_the_defaults(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load(folder)
    assert run_command_line(["validate", str(folder / "orders.yaml")]) == 0
    (folder.parents[1] / "eos.yaml").write_text("checkpoint: {location: /var/eos, intervall: 1s}")
    assert run_command_line(["validate", str(folder / "orders.yaml")]) == 2
    assert "eos.yaml:1: checkpoint.intervall: unknown key" in capsys.readouterr().err


def test_the_example_of_the_page(folder: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "spec.md").read_text()
    (example,) = re.findall(r'^```yaml title="eos.yaml"\n(.*?)^```', page, re.DOTALL | re.MULTILINE)
    (folder / "eos.yaml").write_text(example)
    spec = load(folder)
    assert (spec.checkpoint.location, spec.checkpoint.interval_s) == ("s3://my-bucket/eos/orders", 10)
