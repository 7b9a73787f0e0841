"""What is wrong with a spec: every mistake at once, each with its file, line, path and what to write instead."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from eos.errors import SpecError

Path = tuple[str | int, ...]
"""The way from the top of the document to a value: keys and list indexes."""

_PLAIN_KEY = re.compile(r"[\w-]+")


class LineOfFile(int):
    """A line of a file that the spec includes."""

    file: str

    def __new__(cls, number: int, file: str) -> LineOfFile:
        """Return the number as a line of the file."""
        line = super().__new__(cls, number)
        line.file = file
        return line

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]  # for `__new__` of this class
        return int(self), self.file


def line_in(file: str, number: int) -> int:
    """Return a line of an included file, or of the spec's own file if the name is empty."""
    return LineOfFile(number, file) if file else number


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake. `found` is a phrase ("unknown key 'formt'"), `allowed` what could stand there instead."""

    path: str  # "sources[0].formt"; empty: the document as a whole
    line: int  # from 1
    found: str
    allowed: tuple[str, ...] = ()
    suggestion: str = ""  # the nearest thing that is allowed
    choices: tuple[tuple[str, str], ...] = ()  # possible values, each with its meaning in one line

    def describe(self, file: str) -> str:
        """Return the mistake as editors and people read it: `spec.yaml:12: sources[0].formt: unknown key …`.

        Each choice is on a separate, indented line. `file`: the spec's own, where the line is not one of another file.
        """
        file = self.line.file if isinstance(self.line, LineOfFile) else file
        where = f"{file}:{self.line}: {self.path}: " if self.path else f"{file}:{self.line}: "
        meant = f"; did you mean '{self.suggestion}'?" if self.suggestion else ""
        allowed = f"{'' if meant else ';'} allowed: {', '.join(self.allowed)}" if self.allowed else ""
        width = max((len(value) for value, _ in self.choices), default=0)
        choices = "".join(f"\n    {value:<{width}}  {meaning}" for value, meaning in self.choices)
        return f"{where}{self.found}{meant}{allowed}{'; choose one:' if choices else ''}{choices}"


class SpecMistakesError(SpecError):
    """A spec with at least one mistake. `mistakes` has all of them, in the order of the file, without secrets."""

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        mistakes: Iterable[Mistake] = (),
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.mistakes = tuple(mistakes)

    @classmethod
    def of(cls, file: str, mistakes: Iterable[Mistake]) -> SpecMistakesError:
        """The error for these mistakes; the message has one line for each."""
        ordered = sorted(mistakes, key=lambda mistake: (getattr(mistake.line, "file", ""), mistake.line))
        return cls("\n".join(mistake.describe(file) for mistake in ordered), mistakes=ordered)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.message, self.remedy, self.mistakes)


def _rebuild(message: str, remedy: str, mistakes: tuple[Mistake, ...]) -> SpecMistakesError:
    return SpecMistakesError(message, remedy=remedy, mistakes=mistakes)


def path_text(path: Path) -> str:
    """`("sources", 0, "format")` as `sources[0].format`; a key with other characters stands in brackets."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{part!r}]"
    return text


def nearest(name: str, allowed: Iterable[str]) -> str:
    """The allowed name that looks most like this one, or an empty text if none does."""
    by_lower = {candidate.lower(): candidate for candidate in allowed}
    found = difflib.get_close_matches(name.lower().replace(" ", "_"), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else ""
