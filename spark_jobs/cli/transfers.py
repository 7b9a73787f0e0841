"""Progress of transfers of savepoints: one line that changes on a terminal, else lines on stderr."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console

_LOG: Final = logging.getLogger("eos.savepoint")


class _Lines(logging.Handler):
    """Log lines of transfers. `warn`: shows the others."""

    def __init__(self, show: Callable[[str], object], warn: Callable[[str], object]) -> None:
        super().__init__(logging.INFO)
        self._show = show
        self._warn = warn

    def emit(self, record: logging.LogRecord) -> None:
        (self._show if record.levelno == logging.INFO else self._warn)(record.getMessage())


@contextmanager
def shown_transfers(show: Callable[[str], object] | None = None) -> Iterator[None]:
    """Show log lines of savepoints during the block. `show`: of a command whose log lines are set up otherwise."""
    if show is not None:
        with _handled(_Lines(show, lambda _: None)):
            yield
        return
    console = Console(stderr=True)

    def line(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    with console.status("") as status, _handled(_Lines(status.update if console.is_terminal else line, line)):
        yield


@contextmanager
def _handled(handler: logging.Handler) -> Iterator[None]:
    level = _LOG.level
    _LOG.addHandler(handler)
    _LOG.setLevel(min(level or logging.INFO, logging.INFO))
    try:
        yield
    finally:
        _LOG.removeHandler(handler)
        _LOG.setLevel(level)
