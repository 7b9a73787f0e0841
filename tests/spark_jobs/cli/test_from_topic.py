"""What `eos init --from-topic` writes of what it has found."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from connectors.api.format import Recognized
from connectors.spec.loader import load_source
from connectors.spec.sql_syntax import as_column
from eos.errors import SpecError
from spark_jobs.cli import run_command_line
from spark_jobs.cli.from_topic import PASSWORD, Registry, Sampled, look_at
from spark_jobs.cli.init import _beside, _write, source_template
from spark_jobs.operations import sampling

_LONG = ", ".join(f"column_{number} STRUCT<a: BIGINT, b: ARRAY<STRING>>" for number in range(20))


@pytest.mark.parametrize(
    "text",
    [
        "id BIGINT",
        _LONG,
        f"`a  b` BIGINT, {_LONG}",
        f"`ü` BIGINT, {_LONG}",
        "`${x}` BIGINT",
        f"`${{x}}` BIGINT, {_LONG}",
        ", ".join(f"`order-line-item-{number}` BIGINT" for number in range(20)),
        f"`{'x' * 110}` BIGINT",
    ],
)
def test_a_text_comes_back_from_the_spec_as_it_was(text: str) -> None:
    sampled = Sampled("json", 1, Recognized({"schema": text}, ("id",)), Registry(None, None))
    _, template = source_template(None)
    entry = template.entry.replace("<topic>", "t").replace("<format>", sampled.yaml)
    source = load_source(entry, {"KAFKA": "localhost:9092"})
    assert getattr(source, "format").schema_text == text  # noqa: B009  # of a source with formats
    assert max(map(len, entry.splitlines())) < 120 or any(each in text for each in ("  b", "ü", "xx"))


def _sampled(values: Sequence[bytes], keys: Sequence[bytes], monkeypatch: pytest.MonkeyPatch) -> Sampled:
    monkeypatch.setenv("KAFKA", "localhost:9092")
    monkeypatch.setattr(sampling, "newest_records", lambda *_: sampling.Sample(list(values), list(keys)))
    _, template = source_template(None)
    return look_at("t", "t", template, Registry(None, None), Path())


def test_keys_with_columns_get_a_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the key's columns the first step selects those that the value lacks."""
    sampled = _sampled([b'{"id": 1, "note": "x"}'], [b'{"ID": 1, "part": 2}'], monkeypatch)
    assert sampled.columns == "id, note, key_part"
    assert "keys are json: 2 columns" in sampled.report("t")
    _, template = source_template(None)
    source = load_source(template.entry.replace("<topic>", "t").replace("<format>", sampled.yaml), os.environ)
    assert list(source.columns or ())[:4] == ["id", "note", "key_ID", "key_part"]


@pytest.mark.parametrize(
    ("value", "keys"),
    [
        (b'{"id": 1}', []),
        (b'{"id": 1}', [b"text"]),
        (b'{"id": 1}', [b'{"id": 1}', b"1"]),
        (b'{"id": 1, "key_id": 2}', [b'{"id": 1}']),
        (b'{"op": "c", "after": {"id": 1}, "source": {"connector": "mysql"}, "ts_ms": 1}', [b'{"id": 1}']),
    ],
)
def test_other_keys_stay_bytes(value: bytes, keys: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    sampled = _sampled([value], keys, monkeypatch)
    assert "key_format" not in sampled.yaml
    assert "keys" not in sampled.report("t")


def test_the_password_of_a_registry_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD, "of-a-test")
    registry = Registry("https://registry.example", "reader")
    found = Recognized({"encoding": "confluent"}, ("id",), needs_registry=True)
    written = Sampled("avro", 1, found, registry).yaml
    assert YAML(typ="safe").load(written)["registry"] == {
        "url": "https://registry.example",
        "username": "reader",
        "password": f"${{env:{PASSWORD}}}",
    }
    assert registry.resolved["password"] == "of-a-test"
    monkeypatch.delenv(PASSWORD)
    with pytest.raises(SpecError, match=f"the environment variable {PASSWORD} is not set"):
        _ = registry.resolved


def test_names_of_columns_in_sql() -> None:
    names = ("id", "order", "Order", "wei rd", "grün", "_x9", "9x", "a`b", "user")
    assert [as_column(name) for name in names] == [
        *("id", "`order`", "`Order`", "`wei rd`", "`grün`", "_x9", "`9x`", "`a``b`", "`user`")
    ]


@pytest.mark.parametrize(
    "options",
    [
        ["--registry", "http://localhost"],
        ["--registry-user", "x"],
        ["--from-topic", "t", "--format", "json"],
        ["--from-topic", 't"]'],
        ["--from-topic", ""],
    ],
)
def test_options_that_do_not_go_together(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA", "localhost:1")
    assert run_command_line(["init", str(tmp_path / "new.yaml"), *options]) == 2
    assert not (tmp_path / "new.yaml").exists()


def test_without_the_address_the_variable_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KAFKA", raising=False)
    assert run_command_line(["init", str(tmp_path / "new.yaml"), "--from-topic", "orders"]) == 2
    assert "KAFKA" in capsys.readouterr().err


def test_pipelines_of_one_folder_share_files_with_one_content(tmp_path: Path) -> None:
    spec, others = tmp_path / "a.yaml", {"a.proto": "a", "common/part.proto": "part"}
    _write({spec: "spec", **_beside(spec, others)}, made_in=tmp_path)
    assert (tmp_path / "common" / "part.proto").read_text() == "part"
    assert _beside(tmp_path / "b.yaml", {**others, "b.proto": "b"}) == {tmp_path / "b.proto": "b"}
    with pytest.raises(SpecError, match=r"part.proto exists already"):
        _write(_beside(tmp_path / "b.yaml", {"common/part.proto": "another"}), made_in=tmp_path)
