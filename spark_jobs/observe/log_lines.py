"""Log lines: text or one JSON object, with the time in UTC and the pipeline, and without secrets.

Secrets are masked whichever thread writes a line and whoever shows it: of commands and of jobs. Errors quote records,
and records may hold control characters: `printable` escapes what a terminal cannot show.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

from connectors.control_characters import escapes
from connectors.spec import mask
from eos.bounded import shorten, shorten_middle

_PIPELINE: Final[ContextVar[str]] = ContextVar("pipeline", default="")
_ESCAPES: Final = escapes(keep="\t\n")
_JSON_ESCAPES: Final = {code: f"\\u{code:04x}" for code in escapes() if code >= 0x7F}  # JSON has escaped the others


@contextmanager
def of_pipeline(name: str) -> Iterator[None]:
    """Have the lines of this block be of this pipeline: of this thread, and of those that take over its context."""
    token = _PIPELINE.set(name)
    try:
        yield
    finally:
        _PIPELINE.reset(token)


def current_pipeline() -> str:
    """Return the pipeline of this thread's lines; empty if no pipeline is known."""
    return _PIPELINE.get()


class TextLines(logging.Formatter):
    """`TIME LEVEL LOGGER [PIPELINE]: MESSAGE`; without the brackets where no pipeline is known."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s%(of)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        pipeline = _PIPELINE.get()
        record.of = f" [{pipeline}]" if pipeline else ""
        return super().format(record)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 logging's name
        """See logging.Formatter. As in 2026-01-31T12:00:07.123Z."""
        del datefmt
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JsonLines(TextLines):
    """One JSON object: `time`, `level`, `logger`, `pipeline`, `message`, and `trace` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "pipeline": _PIPELINE.get() or None,
            "message": record.getMessage(),
            **({"trace": record.exc_text or self.formatException(record.exc_info)} if record.exc_info else {}),
        }
        return json.dumps({key: value for key, value in line.items() if value is not None}, ensure_ascii=False)


class Masking(logging.Handler):
    """The first handler of our loggers: those after it, of the job's own logging too, are given a masked record."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: frozenset[str] = frozenset()

    def emit(self, record: logging.LogRecord) -> None:
        """Mask the text, with what an argument or a stack trace brought into it.

        Its further lines are set in: nobody's text looks like a line of ours.
        """
        text = printable(mask(shorten(record.getMessage(), _MOST_CHARS), self.secrets))
        record.msg, record.args = text.replace("\n", "\n    "), ()
        if record.exc_info:
            masked = mask(_PLAIN.formatException(record.exc_info), self.secrets)  # first: it is cut in two places
            trace = printable(shorten_middle(masked, _MOST_CHARS))
            record.exc_text = trace.replace("\n", "\n    ")
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and self._is_alone(record.name):
            last.handle(record)  # as Python would, were this no handler

    def _is_alone(self, name: str) -> bool:
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(each is not self for each in logger.handlers):
                return False
            logger = logger.parent if logger.propagate else None
        return True


MASKING: Final = Masking()

_PLAIN: Final = logging.Formatter()
_MOST_CHARS: Final = 64_000
"""Of one entry of the log. What a library or Spark logs or raises may quote a record of any length."""


def mask_log(secrets: frozenset[str]) -> None:
    """Show these in no line of our loggers from now on, nor those of an earlier call. Called with each spec's."""
    MASKING.secrets |= secrets
    ours = logging.getLogger("eos")
    if MASKING not in ours.handlers:
        ours.handlers.insert(0, MASKING)


def printable(text: str) -> str:
    r"""Return the text with each control character but tab and line feed as its escape, such as \x1b."""
    return text.translate(_ESCAPES)


def printable_json(text: str) -> str:
    r"""Return the same JSON with each control character of its texts as its escape, such as \u009b."""
    return text.translate(_JSON_ESCAPES)
