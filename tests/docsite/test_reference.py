"""Generated references: each key, command, path and public name is there, with its facts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from connectors.spec import json_schema
from docsite.pages import ROOT
from docsite.reference import cli, errors, keys, python, rest
from docsite.reference.tables import cell, table
from eos.errors import ERRORS_PAGE, link_of
from spark_jobs.cli import command_line
from spark_jobs.cli.catalogue import CATALOGUE, UNEXPECTED
from spark_jobs.page.opening import PageOptions, opened
from tests.page_history import spec_of
from tests.page_http import TOKEN, Client


def test_each_key_of_the_models_has_a_row() -> None:
    rows = re.findall(r'^\| <span id="([^"]*)">`([^`]*)`</span> \|', keys.page(), re.MULTILINE)
    assert len(rows) > 100
    assert {path for _, path in rows} == {key.path for key in keys.keys(json_schema())}
    ids = [anchor for anchor, _ in rows]
    assert len(ids) == len(set(ids))


def _row(path: str) -> list[str]:
    (line,) = [each for each in keys.page().splitlines() if f">`{path}`<" in each]
    return [each.strip() for each in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_a_row_has_type_default_meaning_and_need() -> None:
    _, kind, default, meaning, needed = _row("checkpoint.interval")
    assert (kind, default) == ("duration", "`2s`")
    assert meaning.startswith("How often a checkpoint begins")
    assert needed == "a user who wants fresher rows, or larger checkpoints"


def test_a_key_that_differs_by_connector_names_the_connectors() -> None:
    _, kind, _, _, _ = _row("sinks[].commit")
    assert "`mysql`, `postgresql`: `two-phase` or `write-ahead-log` or `upsert`" in kind
    assert "`sqlite`: `write-ahead-log` or `upsert`" in kind


def test_removed_keys_stay_as_they_are_written() -> None:
    assert "| `checkpoint.tolerable_failures` | `restart` |" in keys.page()


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"type": "integer"}, "integer"),
        ({"const": "kafka"}, "`kafka`"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string"),
        ({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": r"\$\{"}]}, "integer"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "list of `a` or `b`"),
        ({"$ref": "#/$defs/X"}, "mapping"),
        ({"type": "string", "pattern": r"^\d{1,3} ?%$"}, "percentage"),
    ],
)
def test_a_type_in_words(node: dict[str, Any], expected: str) -> None:
    assert keys._kind(node, {"X": {"type": "object"}}) == expected


def test_each_command_has_a_section_with_all_its_options() -> None:
    page = cli.page()
    assert list(command_line().commands)
    names = [name for name, _ in cli.commands()]
    assert {"eos run", "eos savepoint inspect", "eos dead-letters replay"} <= set(names)
    assert re.findall(r"^#+ `(eos [^`]*)`$", page, re.MULTILINE) == names
    for name, command in cli.commands():
        section = page.partition(f"# `{name}`\n")[2].partition("\n## ")[0]
        for option in {each for parameter in command.params for each in parameter.opts if each.startswith("--")}:
            assert option in section, (name, option)
    assert page.count("```sh\n") >= 18
    assert "| `--ui-port <int range>` | Port of the page; 0: any free port. (env var: EOS_UI_PORT;" in page


def test_the_page_of_errors_is_as_the_catalogue_and_the_classes() -> None:
    assert errors.PAGE.read_text() == errors.page(), "write it: python -m docsite.reference.errors"


def test_each_code_has_a_section_and_each_section_a_code() -> None:
    sources = [
        path for each in ("connectors", "eos", "spark_jobs", "twophase", "wal") for path in (ROOT / each).rglob("*.py")
    ]
    pattern = re.compile(r"""^    code(?:: ClassVar\[str\])? = "(.*)"$""", re.MULTILINE)
    codes = {code for path in sources for code in pattern.findall(path.read_text())}
    assert len(codes) > 35
    sections = re.findall(r"^## (.*)$", errors.page(), re.MULTILINE)
    assert {*sections} == {*codes, UNEXPECTED}
    assert len(sections) == len(set(sections))
    for section in CATALOGUE.values():
        assert section.meaning.endswith(".")
        assert section.causes
    links = [f"#{re.sub('[^a-z-]', '', code.lower())}" for code in sections]  # as GitHub and MkDocs slug a heading
    assert [link_of(code).removeprefix(ERRORS_PAGE) for code in sections] == links


def test_each_path_that_is_served_has_a_section(tmp_path: Any) -> None:
    with opened([spec_of(tmp_path)], PageOptions(port=0, token=TOKEN), lambda _spec: []) as served:
        document = Client(served.url).get("/openapi.json").json
    page = rest.page()
    requests = {(m.upper(), path) for path, node in document["paths"].items() for m in node if path.startswith("/api/")}
    assert set(re.findall(r"^### ([A-Z]+) `([^`]*)`$", page, re.MULTILINE)) == requests
    linked = set(re.findall(r"\]\(#([a-z_-]+)\)", page))
    assert linked
    assert linked <= {each.lower() for each in re.findall(r"^### (\w+)$", page, re.MULTILINE)}


@pytest.mark.parametrize("module", python.MODULES, ids=lambda module: module.__name__)
def test_each_public_name_has_its_directive(module: Any) -> None:
    found = re.findall(rf"^::: {module.__name__}\.(\w+)$", python.page(), re.MULTILINE)
    assert found == python.names(module)
    assert found


def test_a_cell_is_one_line_and_cannot_end() -> None:
    assert cell("a\n b | c") == r"a b \| c"
    assert table(("x", "y"), [("1", "2")]) == "| x | y |\n| --- | --- |\n| 1 | 2 |\n"
