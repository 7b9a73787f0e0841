"""What the commands print: facts to stdout, errors to stderr, and no secret to either.

One `Output` per process, `out`: a command line is one process with one terminal. `load` tells it the secrets of the
spec, and from then on everything that goes through it is masked.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, redirect_stdout
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TextIO, cast

from rich.console import Console, RenderableType
from rich.text import Text

from connectors.spec import Spec, SpecMistakesError, load_spec, load_text, mask
from eos.bounded import shorten
from eos.errors import ConnectorError, link_of
from spark_jobs.cli.catalogue import UNEXPECTED
from spark_jobs.observe.log_lines import JsonLines, mask_log, printable, printable_json

_ERROR = logging.ERROR
_PIPE_WIDTH = 120  # columns where the output is no terminal, so that it does not depend on who reads it


class Output:
    """Prints for people, or with `as_json` for programs: then stdout is one JSON object."""

    def __init__(self) -> None:
        self.as_json = False
        self.debug = os.environ.get("EOS_DEBUG", "") not in {"", "0"}
        self.log_json = os.environ.get("EOS_LOG_FORMAT", "") == "json"
        self._secrets: frozenset[str] = frozenset()

    def load(self, path: Path) -> Spec:
        """A spec of this process, its secrets known from now on. Raises SpecError."""
        return self._loaded(lambda: load_spec(path, os.environ))

    def load_stdin(self) -> Spec:
        """As `load`, of the spec on stdin."""
        return self._loaded(lambda: load_text(sys.stdin.buffer.read(), os.environ))

    def _loaded(self, load: Callable[[], Spec]) -> Spec:
        with self.kept():
            spec = load()
        self._secrets |= spec.secrets
        mask_log(spec.secrets)
        return spec

    @staticmethod
    def kept() -> AbstractContextManager[object]:
        """Send output of a plugin's module to stderr: stdout is for facts, and may be one JSON object."""
        return redirect_stdout(sys.stderr)

    def load_all(self, paths: Iterable[Path]) -> list[Spec]:
        """Several specs, whose secrets are all known from now on. Raises SpecError."""
        specs = [self.load(path) for path in paths]
        self._secrets = frozenset().union(*(spec.secrets for spec in specs))
        return specs

    def mask(self, value: object) -> str:
        """The value as text without secrets."""
        return mask(str(value), self._secrets)

    def text(self, value: object, style: str = "") -> Text:
        """For tables and trees: masked before it is wrapped, and read neither as markup nor by the terminal."""
        return Text(printable(self.mask(value)), style=style)

    def line(self, value: object, style: str = "") -> Text:
        """As `text`, with line ends as escapes: a value that holds one does not look like two lines of ours."""
        return Text(self.text(value).plain.replace("\n", r"\n"), style=style)

    def console(self, *, quiet: bool = False) -> Console:
        """Stdout as a rich console whose every write is masked. `quiet`: one that prints nothing."""
        width = None if sys.stdout.isatty() else _PIPE_WIDTH
        masked = cast("IO[str]", _Masked(sys.stdout, self.mask))
        return Console(file=masked, width=width, highlight=False, markup=False, quiet=quiet)

    def show(self, *renderables: RenderableType) -> None:
        """Print to stdout for people. Everything in it came through `text`."""
        console = self.console()
        for renderable in renderables:
            console.print(renderable)

    def facts(self, value: object) -> None:
        """Print one JSON object to stdout. Plain data; its texts are masked here."""
        print(printable_json(json.dumps(self._masked(value), ensure_ascii=False, indent=2)))

    def error(self, error: ConnectorError) -> None:
        """One clear message, with what to do; the stack trace too with `--debug`."""
        if self.debug:
            self._trace(type(error), error, error.__traceback__)
        if self.as_json:
            self.facts({"ok": False, "error": _facts_of(error)})
        else:
            if isinstance(error, SpecMistakesError):  # a line for each, as editors read them: `spec.yaml:12: …`
                self.say(f"error:\n{error.message}" if "\n" in error.message else f"error: {error.message}", _ERROR)
            else:
                self.say(f"error: {_set_in(error.message)}", _ERROR)
            if error.remedy:
                self.say(f"  remedy: {_set_in(error.remedy)}", _ERROR)
            self.say(f"  {error.code}: {error.link}", _ERROR)

    def say(self, line: str, level: int = logging.INFO) -> None:
        """One line to stderr, masked and unwrapped; of this level where the log is JSON."""
        said = printable(self.mask(line))
        if self.log_json:
            said = JsonLines().format(logging.LogRecord("eos", level, "", 0, said, None, None))
        print(said, file=sys.stderr)

    def unexpected(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """An error that nobody foresaw, as `sys.excepthook`: a message, and the stack trace with `--debug`."""
        if self.debug:
            self._trace(kind, error, trace)
            return
        self.say(f"error: unexpected {kind.__name__}: {_set_in(shorten(str(error)))}", _ERROR)
        self.say("  remedy: run it again with --debug, and report what it prints", _ERROR)
        self.say(f"  {UNEXPECTED}: {link_of(UNEXPECTED)}", _ERROR)

    def _trace(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self.say(_set_in("".join(traceback.format_exception(kind, error, trace)).rstrip()), _ERROR)

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, dict):
            return {self.mask(key): self._masked(entry) for key, entry in value.items()}
        if isinstance(value, (Path, os.PathLike)):
            return self.mask(value)
        if isinstance(value, Iterable):
            return [self._masked(entry) for entry in value]
        return value


def _set_in(text: str) -> str:
    """The text with its further lines set in: an error may quote a record, and no line of a record looks like ours."""
    return text.replace("\n", "\n    ")


def _facts_of(error: ConnectorError) -> dict[str, object]:
    facts: dict[str, object] = {
        "kind": type(error).__name__,
        "message": error.message,
        "remedy": error.remedy,
        "code": error.code,
        "link": error.link,
    }
    if isinstance(error, SpecMistakesError):
        facts["mistakes"] = [
            {
                "path": mistake.path,
                "line": mistake.line,
                "found": mistake.found,
                "allowed": mistake.allowed or [value for value, _ in mistake.choices],
                "suggestion": mistake.suggestion,
            }
            for mistake in error.mistakes
        ]
    return facts


class _Masked:
    """A text stream that masks what is written to it. Rich writes whole lines at once."""

    def __init__(self, stream: TextIO, mask_text: Callable[[object], str]) -> None:
        self._stream = stream
        self._mask = mask_text
        self.encoding = stream.encoding

    def write(self, text: str) -> int:
        return self._stream.write(self._mask(text))

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()


out = Output()
