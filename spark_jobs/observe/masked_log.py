"""Log lines without secrets, whichever thread writes them and whoever shows them: of commands and of jobs.

Errors quote records, and records may hold control characters: `printable` makes of them what a terminal can show.
"""

from __future__ import annotations

import logging
from typing import Final

from connectors.control_characters import escapes
from connectors.spec import mask
from eos.bounded import shorten, shorten_middle

_ESCAPES: Final = escapes(keep="\t\n")
_JSON_ESCAPES: Final = {code: f"\\u{code:04x}" for code in escapes() if code >= 0x7F}  # JSON has escaped the others


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
