"""`checkpoint.location`: a folder or an object store, and the folder of this machine beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.spec import Spec, load_spec
from eos.errors import SpecError
from spark_jobs.adapters.sink_spec import digest_of
from spark_jobs.cli import run_command_line
from spark_jobs.savepoints.places import default_place
from wal.address import ObjectAddress

SECRET = "bucket-secret-9"
OPTIONS = 'location_options: {region: eu-west-1, access_key_id: AKIAPLAIN7, secret_access_key: "${SECRET}"}'


def load(folder: Path, checkpoint: str) -> Spec:
    path = folder / "spec.yaml"
    path.write_text(
        f"pipeline: p\ncheckpoint: {{{checkpoint}}}\n"
        "sinks: [{name: out, connector: sqlite, path: t.db, table: t, commit: write-ahead-log}]\n"
    )
    return load_spec(path, {"SECRET": SECRET})


def test_a_folder(tmp_path: Path) -> None:
    checkpoint = load(tmp_path, "location: state").checkpoint
    assert checkpoint.folder == checkpoint.location_at == tmp_path / "state"
    assert (checkpoint.is_scratch, checkpoint.is_shared) == (False, False)
    assert checkpoint.log_at == tmp_path / "state" / "log"


def test_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    checkpoint = load(tmp_path, f"location: s3://bucket/a, {OPTIONS}").checkpoint
    assert isinstance(checkpoint.location_at, ObjectAddress)
    assert (str(checkpoint.location_at), dict(checkpoint.location_at.options)["secret_access_key"]) == (
        "s3://bucket/a",
        SECRET,
    )
    assert (checkpoint.is_scratch, checkpoint.is_shared) == (True, True)
    assert checkpoint.folder.parent == tmp_path / "caches" / "eos" / "scratch"


def test_rows_wait_beside_head_with_the_same_credentials(tmp_path: Path) -> None:
    checkpoint = load(tmp_path, f"location: s3://bucket/a, {OPTIONS}").checkpoint
    assert isinstance(checkpoint.log_at, ObjectAddress)
    assert isinstance(checkpoint.location_at, ObjectAddress)
    assert str(checkpoint.log_at) == "s3://bucket/a/log"
    assert checkpoint.log_at.options == checkpoint.location_at.options


def test_hdfs(tmp_path: Path) -> None:
    """A port belongs to the URL, and the extra is needed wherever tasks run."""
    spec = load(tmp_path, "location: 'hdfs://Namenode-1.example:8020/eos/a', location_options: {config_dir: /etc/h}")
    assert isinstance(spec.checkpoint.location_at, ObjectAddress)
    assert str(spec.checkpoint.log_at) == "hdfs://Namenode-1.example:8020/eos/a/log"
    assert spec.checkpoint.location_at.endpoint == "hdfs://Namenode-1.example:8020"
    assert (spec.checkpoint.is_scratch, spec.checkpoint.is_shared) == (True, True)
    assert spec.extras == {"hdfs"}
    assert load(tmp_path, "location: s3://bucket/a").extras == frozenset()


def test_each_location_has_a_scratch_folder(tmp_path: Path) -> None:
    """Of one machine: two pipelines of it must not meet there."""
    one, other = (load(tmp_path, f"location: s3://bucket/{name}").checkpoint for name in "ab")
    assert one.folder != other.folder
    assert one.folder == load(tmp_path, "location: s3://bucket/a").checkpoint.folder


def test_another_scratch_folder(tmp_path: Path) -> None:
    checkpoint = load(tmp_path, "location: s3://bucket/a, scratch: here").checkpoint
    assert checkpoint.folder == tmp_path / "here"


@pytest.mark.parametrize("name", ["./s3:/a", "s3:a", "d/s3:/a", "file:///s3:/a"])
def test_a_folder_whose_name_has_a_colon(name: str, tmp_path: Path) -> None:
    root = Path("/") if name.startswith("file:") else tmp_path
    assert load(tmp_path, f"location: '{name}'").checkpoint.folder == root / name.removeprefix("file:///")


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        ("location: s3a://bucket/a", "write s3://bucket/a|'s3://bucket/a'|s3://bucket/a"),
        ("location: s3://bucket", "the prefix below the bucket is missing"),
        ("location: viewfs://host/a", "'viewfs://' is not possible here"),
        ("location: s3:/bucket/a", "'s3:/' is not the beginning of a URL; allowed: file:///path, s3://bucket/prefix, "),
        ("location: dbfs:/a", "'dbfs:/' is not the beginning of a URL"),
        ("location: dbfs:///a", "'dbfs://' is not possible here"),
        ("location: file:/a", "'file:/' is not the beginning of a URL; allowed: file:///path"),
        ("location: file://a/b", "'file://' is not the beginning of a URL; allowed: file:///path"),
        ("location: s3://bucket/a, scratch: s3:/bucket/b", "scratch: 's3:/' is not the beginning of a URL"),
        ("location: hdfs:///a", "hdfs:/// leaves the namenode to this machine's settings"),
        ("location: 'hdfs://host:8020'", "the prefix below the bucket is missing"),
        ("location: 'hdfs://user@host:8020/a'", "a URL of HDFS has no user here.*HADOOP_USER_NAME"),
        ("location: 'hdfs://host:8020/a', location_options: {region: r}", "hdfs:// has no option region"),
        ("location: 'hdfs://host:8020/a', location_options: {namenodes: 'a:1,b:2'}", "of a nameservice"),
        ("location: hdfs://ns/a, location_options: {namenodes: 'a,b'}", "each with its port"),
        ("location: hdfs://ns/a, location_options: {principal: p}", "principal and keytab are one login"),
        (
            "location: state, location_options: {region: x}",
            "`location` is not the URL of a store, and only such a URL has options",
        ),
        ("location: s3://bucket/a, location_options: {regoin: x}", "no option regoin"),
        ("location: state, scratch: here", "everything is at `location`"),
        ("location: s3://bucket/a, head: 'sqlite:///h.db'", "decisions are kept at `location`"),
    ],
)
def test_refused(tmp_path: Path, checkpoint: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        load(tmp_path, checkpoint)
    assert "checkpoint" in str(caught.value)


def test_a_secret_is_in_no_text_of_the_spec(tmp_path: Path) -> None:
    spec = load(tmp_path, f"location: s3://bucket/a, {OPTIONS}")
    assert SECRET not in repr(spec.checkpoint.location_at)
    assert SECRET not in spec.mask(f"of {SECRET}")
    assert "AKIAPLAIN7" not in repr(spec.checkpoint.location_at)


def test_another_location_is_another_place_for_decisions(tmp_path: Path) -> None:
    digests = {digest_of(load(tmp_path, f"location: s3://bucket/{name}, scratch: here")) for name in "ab"}
    assert len(digests) == 2


def test_savepoints_are_written_beside_the_location_that_lasts(tmp_path: Path) -> None:
    at = default_place(load(tmp_path, f"location: s3://bucket/a, {OPTIONS}"))
    assert isinstance(at, ObjectAddress)
    assert (str(at), dict(at.options)["secret_access_key"]) == ("s3://bucket/a/savepoints", SECRET)
    assert default_place(load(tmp_path, "location: here")) == tmp_path / "here" / "savepoints"


@pytest.mark.parametrize("location", ["state", "s3://bucket/a"])
def test_the_report_shows_where_it_is(tmp_path: Path, location: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped place is seen before a pipeline has its memory there."""
    load(tmp_path, f"location: {location}")
    assert run_command_line(["validate", str(tmp_path / "spec.yaml")]) == 0
    resolved = location if "://" in location else tmp_path / location
    assert f"checkpoints at {resolved}" in capsys.readouterr().out.replace("\n", "")
