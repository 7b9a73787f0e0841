"""Reads a spec's file into a Document: within bounds, with references resolved and secrets collected."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Mapping
from functools import partial
from typing import Final

from connectors.api.document import Document, Items, Section, Text
from connectors.api.entry import PLACEHOLDER
from connectors.api.masking import is_secret_name, passwords_in
from connectors.api.mistakes import Mistake, Path, SpecMistakesError, path_text
from connectors.api.plugins import SECRETS, PluginError, UnknownPluginError, installed, load
from connectors.api.secret import Secrets, UnresolvedError
from connectors.spec import defaults, yaml_reader
from connectors.spec.composing import compose
from connectors.spec.notifications import secrets_of
from connectors.spec.written import REFERENCE, secrets_in, shown
from eos.errors import SpecError

_MAX_BYTES: Final = 1024 * 1024
"""Of a spec and its included files together."""

_SETTINGS: Final = frozenset({"properties", "conf", "log_options", "location_options", "sasl", "tls"})
"""Mappings some of whose keys are passwords."""

_ENTRIES: Final = frozenset({"sources", "sinks", "dead_letter"})
"""Sections whose keys are a plugin's: at any depth, one may be a password."""

_TEMPLATES: Final = (("table",),)
"""Keys of sinks whose value may have placeholders."""
_ADDRESSES: Final = (("bootstrap_servers",), ("log",), ("location",))
"""Never a secret, wherever it comes from: an error must name the place."""
_WITH_DEFAULT: Final = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*):-(?P<default>.*)", re.DOTALL)
"""`NAME:-default`, as a shell writes it. The default is a part of the file, and therefore not a secret."""

_WITHOUT_BRACES: Final = re.compile(r"\$([A-Z_][A-Z0-9_]*)\b")
_FREE_TEXT: Final = frozenset({"sql", "options", "properties", "conf", "log_options", "location_options"})
"""Keys of other languages and programs, in which `$NAME` has another meaning."""


def read_document(path: pathlib.Path, environ: Mapping[str, str]) -> Document:
    """Read the file as `document_of` does. Raises SpecError if it is not readable at all."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        message = f"{path}: cannot be read: {reason}"
        raise SpecError(message, remedy="give the path of a YAML file, as in: eos validate pipeline.yaml") from None
    try:
        shared = defaults.find(path)
    except OSError as error:
        message = f"{error.filename}: cannot be read: {error.strerror}"
        raise SpecError(message, remedy=f"allow reading it: {defaults.NAME} may be there") from None
    return document_of(content, str(path), path.absolute().parent, environ, shared)


def document_of(
    content: bytes, file: str, folder: pathlib.Path, environ: Mapping[str, str], shared: pathlib.Path | None = None
) -> Document:
    """Read the content of a file and of the files that it includes, resolve references, and collect secrets.

    Raises SpecMistakesError if it is not one YAML mapping. All other mistakes are in `mistakes` of the result.

    Args:
        content: bytes of YAML.
        file: its name, for messages.
        folder: absolute; relative paths in the spec start here.
        environ: values of the variables.
        shared: the file of defaults, if there is one.
    """
    substitution = _Substitution(folder, environ)
    builder = _Builder(substitution)
    included = _Included(folder, _MAX_BYTES - len(content))
    try:
        text = _text_of(content)
        own = yaml_reader.read_yaml(text, builder.mistakes.append)
        node = compose(own, environ, builder.mistakes.append, included.read, shared)
        root = builder.build(node, ())
        if not isinstance(root, Section):
            message = "a spec is a mapping with the keys pipeline, checkpoint, sources and sinks"
            raise yaml_reader.Unreadable(Mistake("", node.line, message))
    except yaml_reader.Unreadable as error:
        raise SpecMistakesError.of(file, [*builder.mistakes, error.mistake]) from None
    if own is not node:
        builder.secrets.update(secrets_in(own))
    secrets = frozenset((substitution.secrets | builder.secrets) - {""})
    unresolved = frozenset(builder.unresolved)
    return Document(
        file, folder, root, secrets, builder.mistakes, unresolved, text, builder.written, included=included.files
    )


class _Included:
    """The files that a spec includes: each once, and all of them together with a bounded size."""

    def __init__(self, folder: pathlib.Path, left_bytes: int) -> None:
        self.files: list[pathlib.Path] = []
        self._folder = folder
        self._left_bytes = left_bytes
        self._read: set[str] = set()

    def read(self, path: pathlib.Path) -> str:
        """Return the text of a file, and add its path to `files`. Raises Unreadable."""
        file = self._folder / path
        self.files.append(file)
        place = os.path.realpath(file)
        if place in self._read:
            raise _not_included(f"{path} is included twice")
        self._read.add(place)
        try:
            if file.exists() and not file.is_file():  # opening a pipe would wait for a writer
                raise _not_included(f"{path} is not a file")
            with file.open("rb") as opened:
                content = opened.read(max(self._left_bytes, 0) + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a path"
            raise _not_included(f"{path} cannot be read: {reason}") from None
        self._left_bytes -= len(content)
        if self._left_bytes < 0:
            raise _not_included(f"with {path}, the spec and its included files are larger than {_MAX_BYTES} bytes")
        return _text_of(content)


def _not_included(found: str) -> yaml_reader.Unreadable:
    return yaml_reader.Unreadable(Mistake("include", 1, found))


def _text_of(content: bytes) -> str:
    if len(content) > _MAX_BYTES:
        raise yaml_reader.Unreadable(Mistake("", 1, f"the file is larger than {_MAX_BYTES} bytes"))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = f"not UTF-8: byte 0x{content[error.start]:02x}"
        raise yaml_reader.Unreadable(Mistake("", line, found)) from None


class _Builder:
    """Nodes into Sections and Items, within the bounds, with references resolved."""

    def __init__(self, substitution: _Substitution) -> None:
        self._substitution = substitution
        self._values = 0
        self._characters = 0
        self.secrets: set[str] = set()
        self.mistakes: list[Mistake] = []
        self.unresolved: set[str] = set()
        self.written: dict[str, str] = {}

    def build(self, node: yaml_reader.Node, path: Path) -> object:
        self._values += 1
        self._check_bounds(node.line)
        if isinstance(node, yaml_reader.Mapping):
            return self._section(node, path)
        if isinstance(node, yaml_reader.Sequence):
            return self._items(node, path)
        return self._scalar(node, path)

    def _section(self, node: yaml_reader.Mapping, path: Path) -> Section:
        section = Section(path, node.line)
        for key, (line, entry) in node.entries.items():
            value = self.build(entry, (*path, key))
            section[key] = value
            section.lines[key] = line
            if isinstance(entry, yaml_reader.Scalar):
                section.texts[key] = value if isinstance(value, str) else entry.text
                if path and (path[-1] in _SETTINGS or path[0] in _ENTRIES) and is_secret_name(key):
                    self.secrets |= {section.texts[key]} | shown(entry)
                self.secrets |= secrets_of(path, key, section.texts[key]) | shown(entry, partial(secrets_of, path, key))
        return section

    def _items(self, node: yaml_reader.Sequence, path: Path) -> Items:
        items = Items(node.line)
        for index, entry in enumerate(node.items):
            items.append(self.build(entry, (*path, index)))
            items.lines.append(entry.line)
        return items

    def _scalar(self, node: yaml_reader.Scalar, path: Path) -> object:
        if not isinstance(node.value, str):
            return node.value
        text, where = node.value, path_text(path)
        if name := self._without_braces(text, path):
            found = f"'${name}' is not replaced: a reference to a variable has braces"
            self.mistakes.append(Mistake(where, node.line, found, suggestion=f"${{{name}}}"))
            self.unresolved.add(where)
            return text
        try:
            is_template = path[:1] == ("sinks",) and path[-1:] in _TEMPLATES
            text = self._substitution.apply(text, is_secret=path[-1:] not in _ADDRESSES, is_template=is_template)
        except UnresolvedError as error:
            self.mistakes.append(Mistake(where, node.line, error.found, error.allowed, error.suggestion))
            self.unresolved.add(where)
        if isinstance(text, Text):
            self.written[where] = node.value
        self._characters += len(text)
        self._check_bounds(node.line)
        self.secrets |= passwords_in(text) | shown(node, passwords_in)
        return text

    def _without_braces(self, text: str, path: Path) -> str:
        """Return the variable that a value names without braces; empty if the value may be literal.

        `$NAME` is a reference for certain if NAME is set. A whole value `$NAME` is one too, except where a password may
        look so.
        """
        if not _FREE_TEXT.isdisjoint(path):
            return ""
        whole = _WITHOUT_BRACES.fullmatch(text)
        if whole is not None and not is_secret_name(str(path[-1] if path else "")):
            return whole[1]
        return next((name for name in _WITHOUT_BRACES.findall(text) if self._substitution.is_set(name)), "")

    def _check_bounds(self, line: int) -> None:
        if self._values > yaml_reader.MAX_VALUES or self._characters > yaml_reader.MAX_CHARACTERS:
            raise yaml_reader.too_large(line)


class _Substitution:
    """Replaces references, and remembers what came in: `secrets`. Used for one load of one spec."""

    def __init__(self, folder: pathlib.Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = environ
        self._places: dict[str, Secrets] = {}
        self.secrets: set[str] = set()

    def apply(self, text: str, *, is_secret: bool = True, is_template: bool = False) -> str:
        """The text with its references resolved, which are secrets from then on. Raises UnresolvedError.

        Reads a named file once. `is_template`: placeholders stay as they are.
        """
        if "${" not in text:
            return text
        pieces: list[str] = []
        end, substituted = 0, False
        for match in REFERENCE.finditer(text):
            pieces.append(text[end : match.start()])
            end = match.end()
            if match[0] == "$${" or (is_template and match[2] and PLACEHOLDER.fullmatch(match[1])):
                pieces.append("${" if match[0] == "$${" else match[0])
                continue
            value, is_default = self._resolve(match)
            pieces.append(value)
            if is_secret and not is_default:
                self.secrets.add(value)
            substituted = True
        pieces.append(text[end:])
        return Text("".join(pieces)) if substituted else "".join(pieces)

    def is_set(self, name: str) -> bool:
        """Return whether a variable of the environment has this name."""
        return name in self._environ

    def _resolve(self, match: re.Match[str]) -> tuple[str, bool]:
        """Return the value of a reference, and whether it is the reference's own default."""
        if match[2] is None:
            found = f"'{match[0][:40]}' is not closed with '}}'"
            raise UnresolvedError(found, allowed=("$${ for the two characters ${",))
        defaulted = _WITH_DEFAULT.fullmatch(match[1])
        if defaulted is None:
            return self._value(match[0], match[1]), False
        if not self._environ.get(defaulted["name"]):
            return defaulted["default"], True
        return self._value(match[0], defaulted["name"]), False

    def _value(self, reference: str, named: str) -> str:
        """Return the value of `${named}`. Raises UnresolvedError."""
        kind, colon, name = named.partition(":")
        if not colon:
            kind, name = "env", kind
        try:
            value: object = self._place(kind).resolve(name)
        except UnknownPluginError:
            found = f"'{reference}' is neither a variable nor a file"
            allowed = (*(f"${{{each}:…}}" for each in installed(SECRETS)), "$${ for ${ itself")
            raise UnresolvedError(found, allowed=allowed) from None
        except PluginError as error:
            raise UnresolvedError(f"'{reference}': {error.message}; {error.remedy}") from None
        except UnresolvedError:
            raise
        except (Exception, SystemExit) as error:  # of a plugin; its message may quote a secret
            raise UnresolvedError(
                f"'{reference}' cannot be resolved: {kind!r} raised {type(error).__name__}"
            ) from error
        if not isinstance(value, str):
            raise UnresolvedError(f"'{reference}' cannot be resolved: {kind!r} returned no text")
        return value

    def _place(self, kind: str) -> Secrets:
        if kind not in self._places:
            self._places[kind] = load(SECRETS, kind, Secrets)(self._folder, self._environ)
        return self._places[kind]
