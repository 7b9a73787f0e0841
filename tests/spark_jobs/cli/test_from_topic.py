"""What `eos init --from-topic` writes of what it has found."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from connectors.api.format import Recognized
from connectors.spec.loader import load_source
from connectors.spec.sql_syntax import as_column
from eos.errors import SpecError
from spark_jobs.cli import run_command_line
from spark_jobs.cli.from_topic import PASSWORD, Registry, Sampled
from spark_jobs.cli.init import _beside, _write, source_template

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
    ],
)
def test_a_text_comes_back_from_the_spec_as_it_was(text: str) -> None:
    sampled = Sampled("json", 1, Recognized({"schema": text}, ("id",)), Registry(None, None))
    _, template = source_template(None)
    entry = template.entry.replace("<topic>", "t").replace("<format>", sampled.yaml)
    source = load_source(entry, {"KAFKA": "localhost:9092"})
    assert getattr(source, "format").schema_text == text  # noqa: B009  # of a source with formats
    assert max(map(len, entry.splitlines())) < 120 or "  b" in text or "ü" in text


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
