"""A spec's file as plain data that remembers lines and paths: what the models validate, before they validate it."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from connectors.api.masking import mask
from connectors.api.mistakes import Mistake, Path, path_text

_MAX_SHOWN: Final = 300  # characters of a phrase; masked before it is cut


class Text(str):
    """Text that came, whole or in part, through a substitution. A number may be written so, too."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Tasks get a mere text: they would load the whole package of the spec for it."""
        return str, (str(self),)


class Section(dict[str, object]):
    """A mapping of the spec. Equal to a dict; knows where it stands and how its scalars were written."""

    def __init__(self, path: Path, line: int) -> None:
        super().__init__()
        self.path = path
        self.line = line
        self.lines: dict[str, int] = {}  # of the keys
        self.texts: dict[str, str] = {}  # scalars as written, references resolved


class Items(list[object]):
    """A list of the spec."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: list[int] = []


def child(value: object, part: str | int) -> tuple[int, object] | None:
    """Line and value of a key or list entry, if it is there."""
    if isinstance(value, Section) and isinstance(part, str) and part in value:
        return value.lines[part], value[part]
    if isinstance(value, Items) and isinstance(part, int) and part < len(value):
        return value.lines[part], value[part]
    return None


@dataclass(slots=True)
class Document:
    """The file as data, and what was wrong with it so far. Handed to the models as their validation context."""

    file: str  # as the user named it, for messages
    folder: pathlib.Path  # absolute; relative paths of the spec start here
    root: Section
    secrets: frozenset[str] = frozenset()
    mistakes: list[Mistake] = field(default_factory=list)
    unresolved: frozenset[str] = frozenset()  # paths whose value is not known: nothing more is said about them
    text: str = ""  # of the file, as it is written
    written: Mapping[str, str] = field(default_factory=dict)  # path -> text with `${…}`, of what came through those
    included: Sequence[pathlib.Path] = ()  # files that the spec includes
    meant: set[Path] = field(default_factory=set)  # missing keys that a mistake accounts for already

    def report(
        self,
        path: Path,
        found: str,
        allowed: tuple[str, ...] = (),
        suggestion: str = "",
        choices: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Remember a mistake; its line is that of the nearest thing that exists on the path."""
        where = path_text(path)
        if where in self.unresolved:
            return
        if where in self.written:  # a message might quote a part of it, which is not known as a secret
            found, suggestion = f"what '{self.written[where]}' stands for does not fit here", ""
        shown = tuple(self.mask(text) for text in allowed)
        phrase = _short(self.mask(found))
        described = tuple((value, self.mask(meaning)) for value, meaning in choices)
        mistake = Mistake(self.mask(where), self.line_of(path), phrase, shown, self.mask(suggestion), described)
        if mistake not in self.mistakes:
            self.mistakes.append(mistake)

    def mask(self, text: str) -> str:
        """The text without the spec's secrets."""
        return mask(text, self.secrets)

    def line_of(self, path: Path) -> int:
        """The line of a key or list entry; for one that is missing, that of what it is missing from."""
        value: object = self.root
        line = self.root.line
        for part in path:
            following = child(value, part)
            if following is None:
                break
            line, value = following
        return line


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
