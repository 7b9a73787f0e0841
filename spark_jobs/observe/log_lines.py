"""What a line of the log looks like: text, or one JSON object; with its time in UTC, and the pipeline that it is of."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

_PIPELINE: Final[ContextVar[str]] = ContextVar("pipeline", default="")


@contextmanager
def of_pipeline(name: str) -> Iterator[None]:
    """Have the lines of this block be of this pipeline: of this thread, and of those that take over its context."""
    token = _PIPELINE.set(name)
    try:
        yield
    finally:
        _PIPELINE.reset(token)


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
