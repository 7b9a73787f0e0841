"""The page of the command line: usage, arguments, options and examples of each command, as its parser has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import typer

from docsite.reference.tables import cell, table
from spark_jobs.cli import command_line

_HEAD: Final = """\
# Options of each command

Generated from the parsers of the commands. [Commands](commands.md) lists the commands by their use,
and the exit codes.

"""


def page() -> str:
    """Return the page."""
    return _HEAD + "\n".join(_section(name, command) for name, command in commands())


def commands() -> Iterator[tuple[str, Any]]:
    """Yield each command and each command of a group, with the words that call it."""

    def follow(words: str, group: Any) -> Iterator[tuple[str, Any]]:
        for name, command in group.commands.items():
            yield f"{words} {name}", command
            if hasattr(command, "commands"):
                yield from follow(f"{words} {name}", command)

    yield from follow("eos", command_line())


def _section(name: str, command: Any) -> str:
    context = typer.Context(command, info_name=name)
    level = "#" * len(name.split())
    text, _, examples = (command.help or "").partition("\nExamples:\n")
    usage = re.sub(r"^Usage: ", "", command.get_usage(context)).strip()
    parts = [f"{level} `{name}`\n", f"```text\n{usage}\n```\n", _plain(text)]
    rows = [each.get_help_record(context) for each in command.get_params(context)]
    shown = [(f"`{left}`".replace("|", "\\|"), cell(_plain(right))) for left, right in filter(None, rows)]
    parts.append(table(("argument or option", "meaning"), shown))
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    if lines:
        parts.append("```sh\n" + "\n".join(lines) + "\n```\n")
    return "\n".join(parts)


def _plain(text: str) -> str:
    """Return help text as Markdown: options become code, and brackets become parentheses."""
    text = re.sub(r"(?<![`\w-])(--[a-z][a-z-]*)", r"`\1`", text.strip())
    return re.sub(r"\[((?:required|default|env var|\d)[^\]]*)\]", r"(\1)", text) + "\n"
