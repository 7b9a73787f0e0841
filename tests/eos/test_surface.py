"""The public names: which they are, their signatures and docstrings, and that examples and docs import no others."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import eos
from tests.eos.listing import PAGE, listed, listing

ROOT = Path(__file__).parents[2]

JOB = ("EosError", "ExactlyOnce", "Spec", "SpecError", "load_spec", "register_formats", "run")
CONTRACTS = ("Committer", "DirectWriter", "Format", "Sink", "Source", "Writer")
VALUES = (
    *("CommitOutcome", "Committable", "Decoded", "Finding", "Horizon", "OffsetRange", "Prepared", "Scope"),
    *("SinkState", "StartingPoint", "TransactionId", "Undecodable"),
)
ERRORS = ("BadRowError", "EosError", "SinkUnavailableError", "SourceError", "SpecError", "TargetError")

SAID = {
    **dict.fromkeys(("ExactlyOnce", "load_spec", "register_formats", "run"), ("Called by:", "Block", "Raises:")),
    **dict.fromkeys(CONTRACTS, ("Implemented by:", "Called by:", "Call order:", "Blocking:", "Raises:", "Rule:")),
    **dict.fromkeys((*VALUES, "Spec"), ("Created by:", "Read by:")),
    **dict.fromkeys(ERRORS, ("Raised by:",)),
}
"""Parts of the docstring of each name."""


def test_the_public_names() -> None:
    assert set(eos.__all__) == {*JOB, *CONTRACTS, *VALUES, *ERRORS} == set(SAID)
    assert eos.__all__ == sorted(eos.__all__)
    assert dir(eos) == sorted(eos.__all__)


def test_the_docs_list_each_name_with_its_signature() -> None:
    """After a change on purpose: python -m tests.eos.listing."""
    page = PAGE.read_text()
    assert listed(page) == listing()
    above = page.partition("## Signatures")[0]
    assert [name for name in eos.__all__ if f"`{name}`" not in above] == []


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


def test_type_checkers_see_the_names_that_are_imported_when_used() -> None:
    tree = ast.parse((ROOT / "eos" / "__init__.py").read_text())
    (block,) = (each for each in tree.body if isinstance(each, ast.If) and isinstance(each.test, ast.Name))
    imported = {
        each.module: {name.name for name in each.names} for each in block.body if isinstance(each, ast.ImportFrom)
    }
    assert imported == {module: set(names) for module, names in eos._NAMES.items()}


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="module 'eos' has no attribute 'Sync'"):
        eos.Sync  # type: ignore[attr-defined]  # noqa: B018


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
    ],
)
def test_an_import_loads_no_more_than_it_needs(line: str, heavy: set[str]) -> None:
    code = f"import sys; {line}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert heavy & set(done.stdout.split()) == set()


def test_the_distribution_has_the_package_and_its_types() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    packages = config["options.packages.find"]["include"].split()
    assert {"eos", "eos.*"} <= set(packages)
    assert [name for name in packages if "*" not in name and not (ROOT / name / "py.typed").is_file()] == []


_OURS = {"connectors", "integration_tests", "spark_jobs", "tests", "twophase", "wal"}
_IMPORT = re.compile(r"^\s*(?:from|import)\s+(\w+)", re.MULTILINE)


def _imports() -> Iterator[tuple[str, str]]:
    """Of every example and every block of Python in the docs: its place, and each package that it imports."""
    for path in sorted((ROOT / "examples").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            yield from ((str(path.relative_to(ROOT)), name.partition(".")[0]) for name in names)
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for block in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
            yield from ((path.name, name) for name in _IMPORT.findall(block))


def test_examples_and_docs_import_nothing_else_of_this_project() -> None:
    found = list(_imports())
    assert sum(name == "eos" for _, name in found) >= 5
    assert [(place, name) for place, name in found if name in _OURS] == []
