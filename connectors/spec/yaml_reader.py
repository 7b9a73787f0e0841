"""YAML text into nodes that know their lines: text, numbers, booleans, null, lists and mappings, and nothing else.

Made from the parser's events, not from a loader: no tag can build an object, nothing recurses deeper than DEPTH, and a
key that stands twice is seen instead of overwritten. Scalars follow YAML 1.2 (`yes` is text), and a number that text
could not be made from again (`007`, `0x1F`, `1_000`) stays text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from connectors.api.mistakes import Mistake, Path, line_in, path_text

DEPTH: Final = 32
"""Levels of nesting; a spec needs six."""

MAX_VALUES: Final = 10_000
MAX_CHARACTERS: Final = 4 * 1024 * 1024
"""Both count each use of an alias: a few lines of aliases could fill the memory (a "YAML bomb")."""

_MAX_KEY: Final = 1024
"""Characters of a key, which messages quote. YAML has the same bound for keys without `?`."""

_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_FLOAT: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?([eE][-+]?[0-9]{1,2})?")
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_HALF: Final = re.compile("[\ud800-\udfff]")
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*\s+)+")
"""An anchor and a tag before a value."""

_TEXT_TAG: Final = "tag:yaml.org,2002:str"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value, its text, and the characters of the file that it is read from."""

    value: str | int | float | bool | None
    text: str
    line: int
    raw: str = ""  # without quotes, tag and anchor; with escapes, and with all its lines


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    items: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping; `entries` has each key once, with the line of the key."""

    entries: dict[str, tuple[int, Node]]
    line: int


Node = Scalar | Sequence | Mapping


class Unreadable(Exception):
    """Reading cannot go on after this mistake."""

    def __init__(self, mistake: Mistake) -> None:
        super().__init__(mistake.found)
        self.mistake = mistake


def too_large(line: int) -> Unreadable:
    """Return the error for a spec with more values or characters than allowed."""
    found = f"more than {MAX_VALUES} values or {MAX_CHARACTERS} characters, with what aliases (*name) repeat"
    return Unreadable(Mistake("", line, found))


def _check_bounds(node: Node) -> None:
    """Raise Unreadable if a node has too many values or characters, with each use of an alias counted."""
    waiting, values, characters = [node], 0, 0
    while waiting:
        each = waiting.pop()
        values += 1
        if isinstance(each, Mapping):
            characters += sum(map(len, each.entries))
            waiting += [value for _, value in each.entries.values()]
        elif isinstance(each, Sequence):
            waiting += each.items
        else:
            characters += len(each.text)
        if values + len(waiting) > MAX_VALUES or characters > MAX_CHARACTERS:
            raise too_large(each.line)


def read_yaml(text: str, report: Callable[[Mistake], None], file: str = "") -> Node:
    """Return the one document in `text`.

    `report` gets mistakes that do not end the reading. Raises Unreadable for a mistake that does. `file`: the name of
    an included file, which its lines have; empty for the spec's own file.
    """
    reader = _Reader(text, report, file)
    try:
        node = reader.document()
    except MarkedYAMLError as error:
        line = line_in(file, error.problem_mark.line + 1 if error.problem_mark else 1)
        raise Unreadable(Mistake("", line, _explain(error))) from None
    except YAMLError as error:  # the reader's own: a character that YAML does not allow
        position = getattr(error, "position", 0)
        line = line_in(file, text.count("\n", 0, position) + 1)
        code = getattr(error, "character", 0)
        found = f"the character U+{code:04X} is not allowed in YAML" if isinstance(code, int) else "not YAML"
        raise Unreadable(Mistake("", line, found)) from None
    _check_bounds(node)
    return node


def _explain(error: MarkedYAMLError) -> str:
    problem = " ".join(str(error.problem or error.context or "not YAML").split())
    if "'\\t'" in problem:
        return "not YAML: a tab; YAML is indented with spaces"
    return f"not YAML: {problem}"


class _Reader:
    """Turns events into nodes, one call per node."""

    def __init__(self, text: str, report: Callable[[Mistake], None], file: str) -> None:
        self._file = file
        self._text = text
        self._events: Iterator[Any] = iter(YAML(typ="safe", pure=True).parse(text))
        self._report = report
        self._anchors: dict[str, Node] = {}

    def document(self) -> Node:
        event = self._next()
        while _is(event, "StreamStart", "DocumentStart"):
            event = self._next()
        if _is(event, "StreamEnd"):
            raise Unreadable(Mistake("", line_in(self._file, 1), "the file is empty"))
        node = self._node(event, ())
        while not _is(event := self._next(), "StreamEnd"):
            if _is(event, "DocumentStart"):
                line = line_in(self._file, event.start_mark.line + 1)
                raise Unreadable(Mistake("", line, "a second document begins; a spec is one document"))
        return node

    def _next(self) -> Any:
        return next(self._events)

    def _node(self, event: Any, path: Path) -> Node:
        line = line_in(self._file, event.start_mark.line + 1)
        if len(path) > DEPTH:
            raise Unreadable(Mistake(path_text(path[:4]), line, f"nested deeper than {DEPTH} levels"))
        if _is(event, "Alias"):
            return self._alias(event.anchor, path, line)
        if _is(event, "Scalar"):
            node: Node = self._scalar(event, path, line)
        elif _is(event, "SequenceStart"):
            self._refuse_tag(event, path, line)
            node = self._sequence(path, line)
        else:
            self._refuse_tag(event, path, line)
            node = self._mapping(path, line)
        if event.anchor is not None:
            self._anchors[str(event.anchor)] = node
        return node

    def _alias(self, name: str, path: Path, line: int) -> Node:
        """Known once its anchor's node is complete, so that no node can contain itself."""
        try:
            return self._anchors[str(name)]
        except KeyError:
            raise Unreadable(Mistake(path_text(path), line, f"unknown alias '*{name}'")) from None

    def _sequence(self, path: Path, line: int) -> Sequence:
        items: list[Node] = []
        while not _is(event := self._next(), "SequenceEnd"):
            items.append(self._node(event, (*path, len(items))))
        return Sequence(tuple(items), line)

    def _mapping(self, path: Path, line: int) -> Mapping:
        entries: dict[str, tuple[int, Node]] = {}
        while not _is(event := self._next(), "MappingEnd"):
            key_line = line_in(self._file, event.start_mark.line + 1)
            key = self._key(event, path, key_line)
            node = self._node(self._next(), (*path, key))
            if key in entries:
                found = f"the key '{key}' stands twice, first in line {entries[key][0]}"
                self._report(Mistake(path_text((*path, key)), key_line, found))
            elif key == "<<":
                found = "merge keys (<<) are not supported; write the keys out"
                self._report(Mistake(path_text(path), key_line, found))
            else:
                entries[key] = (key_line, node)
        return Mapping(entries, line)

    def _key(self, event: Any, path: Path, line: int) -> str:
        node = self._node(event, (*path, "?"))
        if not isinstance(node, Scalar):
            raise Unreadable(Mistake(path_text(path), line, "a key must be text"))
        if len(node.text) > _MAX_KEY:
            raise Unreadable(Mistake(path_text(path), line, f"a key is longer than {_MAX_KEY} characters"))
        if not isinstance(node.value, str):
            self._report(Mistake(path_text(path), line, f"the key {node.text or 'null'} must be text"))
        return node.text

    def _scalar(self, event: Any, path: Path, line: int) -> Scalar:
        text = self._whole(event.value, path, line)
        plain = event.style is None and event.tag is None
        if event.tag is not None and str(event.tag) not in {_TEXT_TAG, "!"}:
            self._refuse_tag(event, path, line)
        return Scalar(scalar(text) if plain else text, text, line, self._raw(event))

    def _raw(self, event: Any) -> str:
        """Return the characters of a scalar as the file has them."""
        raw = self._text[event.start_mark.index : event.end_mark.index]
        if event.tag is not None or event.anchor is not None:
            raw = _PROPERTIES.sub("", raw, count=1)
        if event.style in {"'", '"'}:
            raw = raw[1:-1]
        elif event.style in {"|", ">"}:
            _, _, raw = raw.partition("\n")  # behind the header
        return raw.strip()

    def _whole(self, text: str, path: Path, line: int) -> str:
        """Return the text with the two escapes of one character joined, as JSON writes it ("\\ud83d\\ude00")."""
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16") if _HALF.search(text) else text
        except UnicodeDecodeError:
            found = "an escape of U+D800 to U+DFFF stands alone; it is half of a character"
            raise Unreadable(Mistake(path_text(path), line, found)) from None

    def _refuse_tag(self, event: Any, path: Path, line: int) -> None:
        if event.tag is not None and str(event.tag) not in {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "!"}:
            self._report(Mistake(path_text(path), line, f"the tag {event.tag} is not allowed; write a plain value"))


def _is(event: Any, *kinds: str) -> bool:
    return type(event).__name__ in {f"{kind}Event" for kind in kinds}


def scalar(text: str) -> str | int | float | bool | None:
    """Return the value of a plain scalar by YAML 1.2's core schema, if the value could be written as the same text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
