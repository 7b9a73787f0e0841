"""`eos init` and `eos schema`: what they write is what `eos validate` takes, and an editor's validator agrees."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from connectors.api import plugins
from connectors.spec import load_spec
from connectors.sql.sqlite.entry import SqliteEntry
from spark_jobs.cli import run_command_line
from tests.connectors.spec.entries import kafka_source

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted(set((ROOT / "examples").glob("*/*.yaml")) - set((ROOT / "examples").glob("plugin_*/*.yaml")))
"""Without the spec of plugins that are not installed here: test_docs_plugins.py runs it."""


@pytest.fixture(autouse=True)
def _one_call_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAFKA", "localhost:9092")


def schema(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert run_command_line(["schema"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def mistakes(schema: dict[str, Any], text: str) -> list[str]:
    """What an editor would mark. The JSON Schema of dates is a text's, as for the YAML language server."""
    validator = jsonschema.Draft202012Validator(schema)
    content = json.loads(json.dumps(YAML(typ="safe").load(StringIO(text)), default=str))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(content)]


_ADDRESSES = {
    "kafka": "broker:9092",
    "mariadb": "mariadb+pymysql://u:p@h/d",
    "mysql": "mysql+pymysql://u:p@h/d",
    "postgresql": "postgresql://u:p@h/d",
    "print": "",
    "sqlite": "/tmp/x.db",
}


@pytest.mark.parametrize("sink", list(plugins.installed(plugins.SINKS)))
@pytest.mark.parametrize("form", list(plugins.installed(plugins.FORMATS)))
def test_what_init_writes_is_a_valid_spec(
    form: str,
    sink: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    environ = {"KAFKA": "k:1", **dict.fromkeys(("DATABASE", "TARGET"), _ADDRESSES[sink])}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    arguments = ["init", "new.yaml", "--name", "null", "--format", form, "--sink", sink]
    assert run_command_line(arguments) == 0
    assert run_command_line(["validate", "new.yaml"]) == 0
    spec = load_spec(tmp_path / "new.yaml", environ)
    assert (spec.pipeline, kafka_source(spec).topics, kafka_source(spec).format.type) == ("null", ["null"], form)
    assert spec.sinks[0].connector == sink
    text = (tmp_path / "new.yaml").read_text()
    assert mistakes(schema(capsys), text) == []
    assert max(map(len, text.splitlines())) <= 125


def test_init_asks_for_connectors_and_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = "clicks\nstring\noracle\nsqlite\n"  # there is one source; `oracle` is asked for once more
    monkeypatch.setattr("sys.stdin", StringIO(answers))
    assert run_command_line(["init", "new.yaml", "--interactive"]) == 0
    assert "'oracle' is not one of" in "".join(capsys.readouterr())
    spec = load_spec(tmp_path / "new.yaml", {"KAFKA": "k:1", "DATABASE": "x.db"})
    assert (spec.pipeline, kafka_source(spec).format.type, spec.sinks[0].connector) == ("clicks", "string", "sqlite")


def test_init_writes_the_required_keys_of_a_connector_without_a_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SqliteEntry, "template", None)
    assert run_command_line(["init", "new.yaml", "--sink", "sqlite"]) == 0
    assert "Set KAFKA, then run" in capsys.readouterr().out
    written = (tmp_path / "new.yaml").read_text()
    assert "    connector: sqlite\n" in written
    assert '    path: ""  # The database\'s file\n' in written
    assert "    commit: write-ahead-log  # How rows become visible" in written
    filled = written.replace('path: ""', "path: x.db").replace('table: ""', "table: t")
    (tmp_path / "filled.yaml").write_text(filled)
    assert load_spec(tmp_path / "filled.yaml", {"KAFKA": "k:1"}).sinks[0].connector == "sqlite"


def test_init_never_writes_over_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pipeline.yaml").write_text("mine")
    assert run_command_line(["init"]) == 2
    assert "pipeline.yaml exists already" in capsys.readouterr().err
    assert (tmp_path / "pipeline.yaml").read_text() == "mine"
    assert run_command_line(["init", "no/where.yaml"]) == 2
    assert "cannot be written: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "value"), [("--sink", "mysq"), ("--source", "mysql"), ("--format", "yaml")])
def test_init_refuses_what_is_not_installed(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["init", option, value]) == 2
    assert f"there is no {option[2:]} '{value}'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "1st", "a b", "a;DROP", "a\nb", "ü", "x" * 61, "{x}", "--"])
def test_a_name_that_would_not_be_one_everywhere_is_refused(name: str, tmp_path: Path) -> None:
    assert run_command_line(["init", f"--name={name}"]) == 2
    assert list(tmp_path.iterdir()) == []


def test_init_says_as_json_what_the_spec_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["init", "a.yaml", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts == {
        "ok": True,
        "file": "a.yaml",
        "source": "kafka",
        "sink": "mysql",
        "variables": ["KAFKA", "DATABASE"],
    }


def test_the_schema_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(capsys))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_schema_takes_every_example(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mistakes(schema(capsys), example.read_text()) == []


RIGHT = (ROOT / "examples" / "orders" / "orders.yaml").read_text()


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("interval: 2s", "intervall: 2s", "$.checkpoint: "),
        ("interval: 2s", "interval: 2", "$.checkpoint.interval: "),
        ("interval: 2s", "interval: 2 hours", "$.checkpoint.interval: "),
        ("max_records_per_checkpoint: 500000", "max_records_per_checkpoint: 0", "$.checkpoint.max_records"),
        ("topics: [orders]", "topics: []", "$.sources[0].topics"),
        ("on_bad_record: fail", "on_bad_record: ignore", "$.sources[0].on_bad_record: "),
        ("commit: two-phase", "commit: three-phase", "$.sinks[0]"),
        ("table: orders, ", "", "$.sinks[0]"),
        ("pipeline: orders", "pipeline_: orders", "$: "),
        ("strategy: exponential-delay", "strategy: sometimes", "$.restart: "),
    ],
)
def test_the_schema_refuses_a_wrong_spec(old: str, new: str, where: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert RIGHT.count(old) == 1
    found = mistakes(schema(capsys), RIGHT.replace(old, new))
    assert found
    assert any(each.startswith(where) for each in found), found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max_records_per_checkpoint: 500000", "max_records_per_checkpoint: ${env:MANY}"),
        ("on_bad_record: fail", "starting_offsets: {timestamp: 2026-01-31T12:00:00Z}"),
        ("on_bad_record: fail", "starting_offsets: {offsets: {orders/0: 17}, otherwise: latest}"),
        ("on_bad_record: fail", "properties: {fetch.max.bytes: 100, enable.ssl.certificate.verification: true}"),
        ("initial_delay: 1s", "initial_delay: 0.5s, jitter: 0.25"),
    ],
)
def test_the_schema_takes_what_the_loader_takes(
    old: str, new: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = RIGHT.replace(old, new)
    (tmp_path / "x.yaml").write_text(text)
    load_spec(tmp_path / "x.yaml", {"KAFKA": "k:1", "WAREHOUSE": "mysql+pymysql://u:p@h/d", "MANY": "7"})
    assert mistakes(schema(capsys), text) == []


def test_every_key_of_the_schema_says_what_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    found = schema(capsys)
    silent = [
        f"{name}.{key}"
        for name, model in [("Spec", found), *found["$defs"].items()]
        for key, entry in model["properties"].items()
        if "description" not in entry and "$ref" not in entry and "const" not in entry
    ]
    assert silent == []
