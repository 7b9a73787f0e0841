"""`eos init --set`: what it writes is read as it was given, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from connectors.kafka.entry import KafkaEntry
from connectors.spec.loader import load_source
from eos.errors import SpecError
from spark_jobs.cli import run_command_line
from spark_jobs.cli.init import source_template
from spark_jobs.cli.source_keys import with_keys

_LOGIN = ("security.sasl.username=a: b", "security.sasl.password=${env:SECRET}", "security.sasl.mechanism=PLAIN")


def _source(*given: str, folder: Path | None = None) -> KafkaEntry:
    _, template = source_template(None)
    entry = with_keys(template, given).entry.replace("<topic>", "t").replace("<format>", "{type: raw}")
    found = load_source(entry, {"KAFKA": "localhost:9093", "SECRET": "of-a-test"}, folder)
    assert isinstance(found, KafkaEntry)
    return found


def test_a_login_and_tls_are_keys_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    source = _source(*_LOGIN, "security.tls.ca=ca.pem", "security.tls.verify_host_name=false", folder=tmp_path)
    properties = source.client_properties
    assert (properties["sasl.username"], properties["sasl.password"]) == ("a: b", "of-a-test")
    assert properties["sasl.mechanism"] == "PLAIN"
    assert properties["ssl.ca.location"] == str(tmp_path / "ca.pem")
    assert properties["ssl.endpoint.identification.algorithm"] == "none"


def test_numbers_and_texts() -> None:
    source = _source("split_above=1000", "group_id=0123", "isolation_level=read_uncommitted")
    assert (source.split_above, source.group_id, source.isolation_level) == (1_000, "0123", "read_uncommitted")


def test_without_keys_nothing_changes() -> None:
    _, template = source_template(None)
    assert with_keys(template, ()) == template
    assert replace(template) == template


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["security.sasl.password=plain"], "security.sasl.password is a secret"),
        (["security.sasl.password=x${env:SECRET}"], "security.sasl.password is a secret"),
        (["security.sasl.client_secret=plain"], "is a secret"),
        (["security.tls.key_password=plain"], "is a secret"),
        (["security"], "is not a key with a value"),
        (["security="], "is not a key with a value"),
        (["a b=c"], "is not a key with a value"),
        (["a..b=c"], "is not a key with a value"),
        (["group_id=a\nb: c"], "cannot be printed"),
        (["topics=x"], "has the key topics already"),
        (["a=1", "a=2"], "a is given twice"),
        (["a=1", "a.b=2"], "a has a value, and keys below it"),
        (["a.b=1", "a=2"], "a is given twice"),
    ],
)
def test_what_is_refused(given: list[str], message: str) -> None:
    _, template = source_template(None)
    with pytest.raises(SpecError, match=message):
        with_keys(template, given)


def test_the_new_spec_has_the_reference_and_not_the_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SECRET", "of-a-test")
    options = [word for each in _LOGIN for word in ("--set", each)]
    assert run_command_line(["init", str(tmp_path / "new.yaml"), *options]) == 0
    written = (tmp_path / "new.yaml").read_text()
    assert '      password: "${env:SECRET}"' in written
    assert "of-a-test" not in written
    assert run_command_line(["init", str(tmp_path / "other.yaml"), "--set", "security.sasl.password=of-a-test"]) == 2
    assert "of-a-test" not in capsys.readouterr().err
