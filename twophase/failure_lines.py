"""Texts of the log about failures that are retried: the remedy with the first of them, and a line for each other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from eos.errors import EosError

_NUMBER: Final = re.compile(r"\d+")
_MOST_CHARS: Final = 120


@dataclass(slots=True)
class FailureLines:
    """Failures in a row, of one retried action. Used by one thread."""

    _failure: object = None  # the newest failure, as `_same` compares it
    _times: int = 0

    def line(self, error: BaseException, completed: int | None = None) -> str:
        """Return the text for the next failure.

        The whole message and the remedy if the failure is another one than the last, or if a checkpoint was completed
        since; else one line that counts. `completed`: the newest completed checkpoint.
        """
        message = error.message if isinstance(error, EosError) else str(error)
        failure = (type(error), _NUMBER.sub("0", message), completed)
        self._times = self._times + 1 if failure == self._failure else 1
        self._failure = failure
        if self._times > 1:
            first = message.partition("\n")[0]
            shown = first if len(first) <= _MOST_CHARS else f"{first[:_MOST_CHARS]}…"
            return f"{shown} (failure {self._times} in a row)"
        if not isinstance(error, EosError):
            return message
        return f"{message}; remedy: {error.remedy} ({error.code})" if error.remedy else f"{message} ({error.code})"
