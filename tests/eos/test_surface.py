"""The public names: which they are, their signatures and docstrings, and that examples and docs import no others."""

from __future__ import annotations

import ast
import configparser
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import eos
import eos.plugin
import eos.testing
from tests.eos.listing import MODULES, PAGE, listed, listing

ROOT = Path(__file__).parents[2]

JOB = ("EosError", "ExactlyOnce", "Spec", "SpecError", "load_spec", "register_formats", "run")
CONTRACTS = (
    *("CheckedFormat", "CheckpointListener", "Committer", "DirectWriter", "Format", "KeyedFormat", "MeasuredSource"),
    *("NamedSchemas", "SelfDescribingFormat", "Sink", "Source", "Writer"),
)
VALUES = (
    *("CommitOutcome", "Committable", "CompletedCheckpoint", "Decoded", "DecodedTables", "Finding", "Horizon"),
    *("OffsetRange", "Prepared", "Scope", "SinkState", "StartingPoint", "TableRows", "TransactionId", "Undecodable"),
)
ERRORS = ("BadRowError", "EosError", "SinkUnavailableError", "SourceError", "SpecError", "TargetError")

SAID = {
    **dict.fromkeys(("ExactlyOnce", "load_spec", "register_formats", "run"), ("Called by:", "Block", "Raises:")),
    **dict.fromkeys(CONTRACTS, ("Implemented by:", "Called by:", "Call order:", "Blocking:", "Raises:", "Rule:")),
    **dict.fromkeys((*VALUES, "Spec"), ("Created by:", "Read by:")),
    **dict.fromkeys(ERRORS, ("Raised by:",)),
}
"""Outcome of the docstring of each name."""

ENTRIES = ("API_VERSION", "Database", "FormatEntry", "Secrets", "SinkEntry", "SourceEntry", "SplitSourceEntry")
OF_ENTRIES = (
    *("DatabaseUse", "Guarantee", "LocalPath", "NonEmpty", "PipelineContext", "Protection", "Recognized", "Template"),
    *("Title", "UnresolvedError", "at_least_once", "log_needs", "with_each_checkpoint", "wrong"),
)
SMALL = (
    *("LogPlace", "Position", "PreparingSink", "PreparingStore", "SplitSource", "StoreSink", "TokenStore"),
    "parse_ddl",
)
SUITES = (
    *("FormatCompliance", "PreparingStoreCompliance", "SinkCompliance", "SourceCompliance", "TokenStoreCompliance"),
    "UpsertCompliance",
)


def test_the_public_names() -> None:
    assert set(eos.__all__) == {*JOB, *CONTRACTS, *VALUES, *ERRORS} == set(SAID)
    assert eos.__all__ == sorted(eos.__all__)
    assert dir(eos) == sorted(eos.__all__)


def test_the_names_of_plugins_and_of_their_tests() -> None:
    assert set(eos.plugin.__all__) == {*ENTRIES, *OF_ENTRIES, *SMALL}
    assert dir(eos.plugin) == sorted(eos.plugin.__all__)
    assert set(eos.testing.__all__) == {*SUITES, "Damage", "Row", "SCHEMA", "SinkTarget"}
    assert {*eos.plugin.__all__, *eos.testing.__all__}.isdisjoint(eos.__all__), "one name, one place"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_docs_list_each_name_and_the_signatures_are_those_on_record(module: ModuleType) -> None:
    """After a change on purpose: python -m tests.eos.listing."""
    assert listed(PAGE.read_text(), module) == listing(module)
    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    assert [name for name in module.__all__ if f"`{name}`" not in page] == []


@pytest.mark.parametrize("name", sorted(eos.plugin.__all__))
def test_each_class_and_function_of_plugins_has_a_docstring(name: str) -> None:
    value: Any = getattr(eos.plugin, name)
    if getattr(value, "__module__", "").startswith("connectors."):
        assert len(value.__doc__.split()) >= 5


@pytest.mark.parametrize("name", sorted(SAID))
def test_each_name_has_a_complete_docstring(name: str) -> None:
    text = vars(getattr(eos, name)).get("__doc__") if isinstance(getattr(eos, name), type) else None
    text = text or getattr(eos, name).__doc__
    assert [part for part in SAID[name] if part not in text] == []


@pytest.mark.parametrize("name", CONTRACTS)
def test_each_method_of_a_contract_has_a_docstring(name: str) -> None:
    members = {key: each for key, each in vars(getattr(eos, name)).items() if not key.startswith("_")}
    silent = [
        key for key, each in members.items() if (callable(each) or isinstance(each, property)) and not each.__doc__
    ]
    assert silent == []


@pytest.mark.parametrize("module", [eos, eos.plugin], ids=lambda module: module.__name__)
def test_type_checkers_see_the_names_that_are_imported_when_used(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    (block,) = (each for each in tree.body if isinstance(each, ast.If) and isinstance(each.test, ast.Name))
    imported = {
        each.module: {name.name for name in each.names} for each in block.body if isinstance(each, ast.ImportFrom)
    }
    assert imported == {place: set(names) for place, names in module._NAMES.items()}


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="module 'eos' has no attribute 'Sync'"):
        eos.Sync  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"module 'eos\.plugin' has no attribute 'Sync'"):
        eos.plugin.Sync  # type: ignore[attr-defined]  # noqa: B018


_CLIENTS = {"confluent_kafka", "psycopg", "pymysql", "pyspark", "sqlalchemy", "sqlite3"}


@pytest.mark.parametrize(
    ("line", "heavy"),
    [
        (
            "import eos",
            {"connectors", "pyarrow", "pydantic", "pyspark", "rich", "spark_jobs", "sqlalchemy", "twophase"},
        ),
        ("from eos import EosError", {"connectors", "pyarrow", "pydantic", "pyspark", "spark_jobs", "sqlalchemy"}),
        ("from eos import load_spec", {"confluent_kafka", "pyspark", "sqlalchemy"}),
        ("from eos import Sink, Source, Format", {"confluent_kafka", "pyspark", "sqlalchemy"}),
        ("import eos.plugin", {"connectors", "pyarrow", "pydantic", "pyspark", "spark_jobs", "sqlalchemy"}),
        (f"from eos.plugin import {', '.join((*ENTRIES, *OF_ENTRIES))}", {"pyarrow", *_CLIENTS}),
        ("from eos.plugin import *", _CLIENTS),
        ("import eos_duckdb.entry", {"duckdb", "pyarrow", *_CLIENTS}),
        ("import eos_files_source.entry", {"obstore", "pyarrow", *_CLIENTS}),
    ],
)
def test_an_import_loads_no_more_than_it_needs(line: str, heavy: set[str]) -> None:
    code = f"import sys; {line}; print(*sys.modules)"
    path = os.pathsep.join(map(str, (ROOT, *sorted((ROOT / "examples").glob("plugin_*")))))
    environ = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    )
    assert heavy & set(done.stdout.split()) == set()


def test_the_distribution_has_the_package_and_its_types() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    packages = config["options.packages.find"]["include"].split()
    assert {"eos", "eos.*"} <= set(packages)
    assert [name for name in packages if "*" not in name and not (ROOT / name / "py.typed").is_file()] == []


_PRIVATE = {"connectors", "integration_tests", "spark_jobs", "tests", "twophase", "wal"}
_PUBLIC = {"eos", "eos.errors", "eos.plugin", "eos.testing"}
_MODULE_PATH = re.compile(r"\b(?:connectors|spark_jobs|twophase|wal)\.[a-z_]+")


def _imports() -> Iterator[tuple[str, str, str]]:
    """Of every example and every block of Python in the docs: its place, and each module and name that it imports."""
    for path in sorted((ROOT / "examples").rglob("*.py")):
        yield from _imports_of(str(path.relative_to(ROOT)), path.read_text())
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for block in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
            yield from _imports_of(path.name, block)


def _imports_of(place: str, code: str) -> Iterator[tuple[str, str, str]]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from ((place, each.name, "") for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((place, node.module or "", each.name) for each in node.names)


def test_examples_and_docs_import_only_public_modules_of_this_project() -> None:
    found = list(_imports())
    places = {place for place, module, _ in found if module in _PUBLIC}
    assert {"examples/plugin_duckdb/eos_duckdb/entry.py", "plugins.md", "own_job.md"} <= places
    assert [each for each in found if each[1].partition(".")[0] in _PRIVATE] == []
    assert [each for each in found if each[1].partition(".")[0] == "eos" and each[1] not in _PUBLIC] == []


def test_examples_and_docs_import_only_public_names() -> None:
    public = {module.__name__: {*module.__all__, ""} for module in MODULES}
    assert [each for each in _imports() if each[1] in public and each[2] not in public[each[1]]] == []


def test_the_page_about_plugins_names_no_other_module() -> None:
    """A path of a file, as connectors/sql/server.py, is for readers of the code."""
    assert _MODULE_PATH.findall((ROOT / "docs" / "tutorial" / "plugins.md").read_text()) == []
