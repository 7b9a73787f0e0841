"""Nothing outside a connector's own package names a connector: entry points do (see also .importlinter)."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from connectors.api import plugins

ROOT: Final = Path(__file__).parents[2]
NAMES: Final = {
    name for group in (plugins.SOURCES, plugins.SINKS, plugins.DATABASES) for name in plugins.installed(group)
}
WORDS: Final = {name for name in NAMES if hasattr(builtins, name)}
"""Connectors that are called as a function of Python is: only a text that is the whole name names them."""
OWN: Final = ("connectors/kafka/", "connectors/sql/", "connectors/terminal/", "connectors/testing/")
CLIENTS: Final = (
    "connectors/schema_registry/",
    "connectors/formats/debezium/",
    "connectors/formats/json_recognition.py",
)
"""Packages whose client is a part of a package of Kafka's, or that read what Kafka Connect writes."""
EXCEPTIONS: Final = {
    "spark_jobs/adapters/kafka_format.py": "the format `eos_kafka` for queries of the user's own",
    "spark_jobs/adapters/formats.py": "registers the format `eos_kafka`",
    "spark_jobs/demo/": "the example job, from one source into one sink",
    "spark_jobs/observe/history/": "the history's own file is a SQLite database",
    "spark_jobs/operations/deletion.py": "deletes the history's file",
}


def test_no_other_module_names_a_connector() -> None:
    word = re.compile(rf"(?<![a-z])({'|'.join(sorted(NAMES - WORDS))})(?![a-z])", re.IGNORECASE)
    found = []
    for package in ("connectors", "spark_jobs", "twophase", "wal"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name.startswith((*OWN, *CLIENTS, *EXCEPTIONS)):
                continue
            found += [f"{name}:{line}: {text}" for line, text in _words(path) if word.search(text)]
            found += [f"{name}:{line}: {text}" for line, text in _texts(path) if text in WORDS]
    assert found == []


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of the code without docstrings, which may explain with an example."""
    tree = ast.parse(path.read_text())
    bodies = [body for node in ast.walk(tree) if isinstance(body := getattr(node, "body", None), list)]
    told = {id(each.value) for body in bodies for each in body if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.lineno, node.value


def _words(path: Path) -> Iterator[tuple[int, str]]:
    """Yield names, imported modules and texts of the code."""
    yield from _texts(path)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.lineno, " ".join([node.module or "", *(each.name for each in node.names)])
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
