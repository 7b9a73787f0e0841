"""`checkpoint.log`: where rows wait, in which spelling, and what is said of it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from connectors.log.place import LogPlace
from connectors.registry import build_sink
from connectors.spec import Spec, guarantees, load_spec
from connectors.sql.sqlite.sink import SqliteSink
from eos.errors import SpecError
from spark_jobs.adapters.sink_spec import digest_of
from spark_jobs.session.master import check_sinks
from wal.address import ObjectAddress

SECRET = "bucket-secret-9"
TEXT = """\
pipeline: p
checkpoint: {location: state%s}
sinks:
  - {name: out, connector: sqlite, path: t.db, table: t, commit: write-ahead-log}
"""
OPTIONS = 'log_options: {region: eu-west-1, access_key_id: AKIAPLAIN7, secret_access_key: "${SECRET}"}'


def load(folder: Path, log: str = "", more: str = "") -> Spec:
    path = folder / "spec.yaml"
    path.write_text(TEXT % (f", {log}" if log else "") + more)
    return load_spec(path, {"SECRET": SECRET, "LOG": "s3://from-elsewhere/log"})


def refusal(folder: Path, log: str) -> str:
    with pytest.raises(SpecError) as caught:
        load(folder, log)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def place(spec: Spec) -> LogPlace:
    sink = build_sink(spec, spec.sinks[0])
    assert isinstance(sink, SqliteSink)
    return sink.log


@pytest.mark.parametrize(
    ("log", "at"),
    [("", "state/log"), ("log: waiting", "waiting"), ("log: /elsewhere/x", "/elsewhere/x"), ("log: file:///x", "/x")],
)
def test_a_folder(tmp_path: Path, log: str, at: str) -> None:
    assert place(load(tmp_path, log)).at == tmp_path / at


@pytest.mark.parametrize(
    ("log", "url"),
    [
        (f"log: s3://bucket/a/b, {OPTIONS}", "s3://bucket/a/b"),
        ("log: s3://bucket/a/", "s3://bucket/a"),
        ("log: gs://bucket_1/a", "gs://bucket_1/a"),
        ("log: az://container/a, log_options: {account_name: acct}", "az://container/a"),
        ('log: "${LOG}"', "s3://from-elsewhere/log"),
    ],
)
def test_an_object_store(tmp_path: Path, log: str, url: str) -> None:
    spec = load(tmp_path, log)
    at = place(spec).at
    assert isinstance(at, ObjectAddress)
    assert str(at) == url == str(at.parse(url, dict(at.options)))
    (promise,) = guarantees(spec)
    assert any(f"a store for the log at {url} that refuses a second object" in need for need in promise.needs)
    assert not any("local disk" in need for need in promise.needs)


SPELLINGS = [
    ("s3a://bucket/x", "s3a:// is how Spark and Hadoop spell it", "s3://bucket/x"),
    ("s3n://bucket/x", "s3n:// is how Spark", "s3://bucket/x"),
    ("gcs://bucket/x", "gcs:// is how Spark", "gs://bucket/x"),
    ("abfss://c-1@acct.dfs.core.windows.net/a/b", "abfss:// is", "az://c-1/a/b with the option account_name: acct"),
    ("wasbs://c-1@acct.blob.core.windows.net/a", "wasbs:// is", "az://c-1/a with the option account_name: acct"),
    ("S3A://bucket/x", "s3a:// is how", "s3://bucket/x"),
    ("viewfs://host/x", "'viewfs://' is not possible here", "s3://bucket/prefix"),
    ("webhdfs://host:9870/x", "webhdfs:// is HDFS over HTTP", "hdfs://namenode:8020/path"),
    ("s3://bucket", "the prefix below the bucket is missing", "s3://bucket/eos/log, or another prefix"),
    ("s3://Bucket/x", "the name of a bucket or container is in lower case", "s3://bucket/prefix"),
    ("s3://key:word@bucket/x", "a URL of a store has no credentials: they are options", "s3://bucket/prefix"),
    ("az://c-1@acct/x", "a URL of a store has no credentials", "az://container/prefix"),
    ("s3://b?x/x", "not the URL of an object store", "s3://bucket/prefix"),
    ("az://c-1/x", "the storage account", "the option account_name"),
]


@pytest.mark.parametrize(("url", "found", "right"), SPELLINGS)
def test_another_spelling_is_refused_with_the_right_one(tmp_path: Path, url: str, found: str, right: str) -> None:
    text = refusal(tmp_path, f'log: "{url}"')
    assert found in text
    assert right in text.partition(found)[2]


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_credentials_in_a_url_are_refused_and_not_shown(tmp_path: Path, scheme: str) -> None:
    assert "allowed: " in refusal(tmp_path, f'log: "{scheme}://AKIA:{SECRET}@bucket/x"')


OPTION_MISTAKES = [
    ("log: s3://b-1/x, log_options: {regoin: x}", "no option regoin"),
    ("log: s3://b-1/x, log_options: {account_key: x}", "no option account_key"),
    ('log: s3://b-1/x, log_options: {endpoint: "http://h:1"}', "has no TLS"),
    (f'log: s3://b-1/x, log_options: {{endpoint: "https://k:{SECRET}@h"}}', "the endpoint is not a URL"),
    ("log_options: {region: x}", "`log` is not the URL of a store, and only such a URL has options"),
    ("log: waiting, log_options: {region: x}", "`log` is not the URL of a store, and only such a URL has options"),
]


@pytest.mark.parametrize(("log", "found"), OPTION_MISTAKES)
def test_wrong_options(tmp_path: Path, log: str, found: str) -> None:
    text = refusal(tmp_path, log)
    assert f"checkpoint.log_options: {found}" in text or found in text
    assert "checkpoint.log_options" in text


def test_options_are_secrets_by_their_names_and_go_with_the_sink(tmp_path: Path) -> None:
    spec = load(tmp_path, f"log: s3://bucket/a, {OPTIONS}")
    sink = pickle.loads(pickle.dumps(build_sink(spec, spec.sinks[0])))
    assert dict(sink.log.at.options)["secret_access_key"] == SECRET
    for shown in (repr(spec), repr(sink), str(sink.log), repr(guarantees(spec))):
        assert SECRET not in shown
        assert "AKIAPLAIN7" not in shown
    assert {SECRET, "AKIAPLAIN7"} <= spec.secrets


def test_tasks_of_other_machines_need_a_log_that_all_see(tmp_path: Path) -> None:
    cluster = 'spark: {master: "spark://elsewhere:7077"}\n'
    with pytest.raises(SpecError, match=r"its rows wait in files at .*state/log") as caught:
        check_sinks(load(tmp_path, more=cluster))
    assert "`checkpoint.log`" in caught.value.remedy
    check_sinks(load(tmp_path, "log: s3://bucket/a", cluster))


def test_another_place_is_another_pipeline_for_a_query_that_runs(tmp_path: Path) -> None:
    at = [load(tmp_path, f"log: s3://bucket/{name}") for name in "ab"]
    at += [load(tmp_path, f'log: s3://bucket/a, log_options: {{endpoint: "https://{host}"}}') for host in ("h", "i")]
    assert len({digest_of(spec) for spec in at}) == 4
