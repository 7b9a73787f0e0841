"""Every `eos …` that docs, alerts, help and messages name is parsed by the command line's own parser."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
import typer

from spark_jobs.cli import command_line

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
DOCKER = sorted(path for path in (ROOT / "docker").rglob("*") if path.is_file() and path.suffix != ".sql")
CODE = sorted(
    path for name in ("connectors", "eos", "spark_jobs", "twophase", "wal") for path in (ROOT / name).rglob("*.py")
)

_GAP = "1"
"""What stands for a value that only the running code knows: a number is a name as well."""
_NO_COMMANDS: Final = {"four", "kafka", "pipeline", "postgresql", "sqlite", "warm"}
"""Words behind `eos` in a title, or in a case of `scripts/bench`."""
_SPAN = re.compile(r"`([^`]+)`")
_START = re.compile(r"(?:\$ |\.venv/bin/)?eos (?=[a-z-])")
_STOP = re.compile(r" +(?:#|>|\||&&|;)|\s*…|[,.;:)]+(?= |$)")


def commands_in(text: str, *, prose: bool = True) -> Iterator[str]:
    """Yield what is typed: each span in backticks, and each line, that begins with `eos`.

    `prose`: a line counts only within a block of code.
    """
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL) if prose else [text]
    rest = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL) if prose else text
    lines = [part for block in blocks for line in block.replace("\\\n", " ").splitlines() for part in line.split("&&")]
    for each in [*lines, *(" ".join(span.split()) for span in _SPAN.findall(rest))]:
        typed = each.strip()
        if start := _START.match(typed):
            command = _STOP.split(typed[start.end() :], maxsplit=1)[0].replace("%s", _GAP)
            if command.split()[0] not in _NO_COMMANDS:
                yield f"eos {command}"


def texts_of(code: str) -> Iterator[str]:
    """Yield each text of a module, its docstrings among them, with a gap for each value in it."""
    tree = ast.parse(code)
    parts = {id(value) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for value in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else _GAP for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def _found() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        yield from ((page.name, command) for command in commands_in(page.read_text()))
    for path in DOCKER:
        text = path.read_text(errors="ignore")
        yield from ((path.name, command) for command in commands_in(text, prose=False))
    for path in CODE:
        for text in texts_of(path.read_text()):
            yield from ((path.name, command) for command in commands_in(text, prose=False))


FOUND = sorted(set(_found()))


USAGE_ERROR: Final = cast("type[Exception]", typer.BadParameter.__mro__[1])
"""What the parser raises: the class of its own copy of click."""


EOS: Final[Any] = command_line()
for _option in EOS.params:
    if _option.name in {"install_completion", "show_completion"}:
        _option.callback = None  # it would write to the files of the user's shell


def parse(command: str) -> None:
    """Raise USAGE_ERROR where the parser does not know a command or an option, or refuses a value.

    What a mention leaves out is no mistake: `eos reset` in a sentence has no spec.
    """
    words = shlex.split(command)[1:]
    name, each, context = "eos", EOS, None
    try:
        while words or context is None:
            context = each.make_context(name, words, parent=context)
            if not hasattr(each, "commands"):
                return
            words = [*context._protected_args, *context.args]
            if words:
                name, each, words = _resolved(each, context, words)
    except (typer.Exit, USAGE_ERROR) as error:
        left_out = type(error).__name__ in {"MissingParameter", "NoArgsIsHelpError"} or "requires an arg" in str(error)
        if not left_out and not isinstance(error, typer.Exit):
            raise


def _resolved(group: Any, context: object, words: list[str]) -> tuple[str, Any, list[str]]:
    name, command, rest = group.resolve_command(context, words)
    return name, command, rest


@pytest.mark.parametrize(("where", "command"), FOUND)
def test_every_command_is_understood(where: str, command: str) -> None:
    del where
    parse(command)


def test_a_message_without_backticks_names_a_command_as_well() -> None:
    texts = [text for path in CODE for text in texts_of(path.read_text())]
    named = {name for text in texts for name in re.findall(r"(?<![\w/.-])eos ([a-z][a-z-]*)", text)}
    assert named - set(EOS.commands) == {"has", "import", "pipeline", "that"}  # words, and the title of the JSON schema


def test_commands_of_every_kind_are_found() -> None:
    places = {where for where, _ in FOUND}
    assert {"README.md", "repair.md", "alerts.yml", "template.py", "reset.py"} <= places
    assert ("alerts.yml", "eos dead-letters list") in FOUND
    assert len(FOUND) > 150
    text = "Run `eos reset\n--to earliest`, then:\n```\neos run a.yaml --ui  # page\neos a\n```\neos is a word"
    assert list(commands_in(text)) == ["eos run a.yaml --ui", "eos a", "eos reset --to earliest"]
    assert list(texts_of('f"`eos run {spec}`"')) == ["`eos run 1`"]


@pytest.mark.parametrize(
    "command",
    [
        "eos dead-letters show",
        "eos rest",
        "eos --versio",
        "eos run a.yaml --until",
        "eos stop a.yaml --timeout 3",
        "eos ui a.yaml --port x",
    ],
)
def test_a_command_that_does_not_exist_is_not_understood(command: str) -> None:
    with pytest.raises(USAGE_ERROR):
        parse(command)
