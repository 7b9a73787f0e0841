"""Commands of the docs other than `eos`: targets of make, scripts, and modules that measure; as they are typed."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer
from typer.main import get_command

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
MAKEFILE = (ROOT / "Makefile").read_text()
_COMMAND = re.compile(
    r"(?:[A-Z_]+=\S+ )*(make|scripts/[a-z]+|(?:\.venv/bin/)?python -m (?:tests|integration_tests|benchmarks)\S*)( .*)?"
)
_WITHOUT_OPTIONS = {"tests.eos.listing", "tests.simulation"}


def commands(text: str) -> Iterator[str]:
    """Each line of a block that is one, without what a shell would do with it; and each that prose names."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]
    for line in [*lines, *spans]:
        typed = re.split(r" +(?:#|>|\||&&)", line.strip())[0]
        if _COMMAND.fullmatch(typed):
            yield typed


FOUND = sorted({(page.name, command) for page in PAGES for command in commands(page.read_text())})


class _UnderstoodError(Exception):
    """A command line was parsed, and nothing is run."""


def test_some_of_each_are_found() -> None:
    kinds = {re.split(r"[ /]", command.removeprefix(".venv/bin/"))[0] for _, command in FOUND}
    assert {"make", "scripts", "python"} <= kinds
    assert len(FOUND) > 30
    text = (
        "```\nmake chaos MINUTES=1  # a comment\nSERVICES=auto scripts/demo\n```\n"
        "`python -m benchmarks.coordinator\n--rounds 3` `make bench`"
    )
    assert list(commands(text)) == [
        "make chaos MINUTES=1",
        "SERVICES=auto scripts/demo",
        "python -m benchmarks.coordinator --rounds 3",
        "make bench",
    ]


@pytest.mark.parametrize(("page", "command"), FOUND)
def test_every_command_is_understood(page: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    del page
    understand(command, monkeypatch)


@pytest.mark.parametrize(
    "command",
    [
        "make tests",
        "make chaos MINUTE=3",
        "SERVICE=docker scripts/demo",
        "scripts/test --lint",
        "scripts/bench compare --kinds hot",
        "python -m integration_tests.chaos sums a.jsonl",
        "python -m benchmarks.scale workers 1 two",
        "python -m benchmarks.coordinator --round 3",
        "python -m tests.simulation --deep",
    ],
)
def test_what_is_not_there_is_not_understood(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError):
        understand(command, monkeypatch)


def understand(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where the command, or a part of it, is not there."""
    words = shlex.split(command)
    while "=" in words[0]:
        variable = words.pop(0).partition("=")[0]
        assert re.search(rf"\$\{{?{variable}\b", (ROOT / words[-1]).read_text()), variable
    if words[0] == "make":
        made(words[1:])
    elif words[0] == "scripts/bench":
        parsed("benchmarks.bench", words[1:], monkeypatch)
    elif words[0].startswith("scripts/"):
        script(ROOT / words[0], words[1:])
    else:
        parsed(words[2], words[3:], monkeypatch)


def made(words: list[str]) -> None:
    """Of targets and variables of the Makefile."""
    for word in words:
        target, is_variable, _ = word.partition("=")
        known = rf"\$\((?:or \$\()?{target}\b" if is_variable else rf"^{target}:.* ## "
        assert re.search(known, MAKEFILE, re.MULTILINE), word


def script(path: Path, words: list[str]) -> None:
    """Of options that the head of the script tells of."""
    assert os.access(path, os.X_OK)
    head = re.split(r"^(?:set -|from )", path.read_text(), maxsplit=1, flags=re.MULTILINE)[0]
    for word in words:
        if word.startswith("-"):
            assert re.search(rf"(?<![\w-]){word.split('=')[0]}(?![\w-])", head), word


def parsed(module: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """By the parser of the module's own, which then runs nothing."""
    assert importlib.util.find_spec(module) is not None
    if module in _WITHOUT_OPTIONS:
        assert words == []
        return

    def by_typer(app: typer.Typer) -> NoReturn:
        command: Any = get_command(app)
        for each in getattr(command, "commands", {"": command}).values():
            each.callback = understood
        command.main(typed, prog_name=module)
        raise AssertionError(module)

    def by_argparse(parser: argparse.ArgumentParser) -> NoReturn:
        parse(parser, typed)
        understood()

    typed = words if len(words) > 1 else [*words, "--help"]  # prose names one without what it must have
    parse = argparse.ArgumentParser.parse_args
    monkeypatch.setattr(typer.Typer, "__call__", by_typer)
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", by_argparse)
    with pytest.raises((_UnderstoodError, SystemExit)) as ended:
        runpy.run_module(module, run_name="__main__")
    assert not isinstance(ended.value, SystemExit) or ended.value.code == 0, words


def understood(**_: object) -> NoReturn:
    """In the place of a command."""
    raise _UnderstoodError
