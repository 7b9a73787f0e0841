"""`eos init --from-topic`: the format and the columns of a topic, from its newest records."""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from connectors.api import plugins
from connectors.api.format import FormatEntry, Recognized
from connectors.api.template import Template
from connectors.spec.loader import load_source
from connectors.spec.sql_syntax import as_column
from eos.errors import SpecError

RECORDS: Final = 1_000
"""Records that are looked at."""
PASSWORD: Final = "REGISTRY_PASSWORD"
_WIDTH: Final = 100
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
KEY_PREFIX: Final = "key_"
"""The default of `key_prefix`."""
_LAST: Final = ("string", "raw")
"""Formats that take nearly all records: tried after all others."""


@dataclass(frozen=True, slots=True)
class Registry:
    """The schema registry of the command line."""

    url: str | None
    username: str | None

    @property
    def keys(self) -> dict[str, str]:
        """The keys of `registry` as the spec has them; empty without a registry."""
        if self.url is None:
            return {}
        login = {"username": self.username, "password": f"${{env:{PASSWORD}}}"} if self.username else {}
        return {"url": self.url, **login}

    @property
    def resolved(self) -> dict[str, str]:
        """The keys of `registry` with the password. Raises SpecError if its variable is not set."""
        if self.username and not os.environ.get(PASSWORD):
            raise SpecError(f"the environment variable {PASSWORD} is not set", remedy=f"export {PASSWORD}=…")
        return {**self.keys, "password": os.environ[PASSWORD]} if self.username else self.keys


@dataclass(frozen=True, slots=True)
class Sampled:
    """The format and the columns of the topic's records, as the new spec has them."""

    form: str  # name of the format
    records: int
    found: Recognized
    registry: Registry
    key_form: str = ""  # empty: the keys stay bytes
    key_found: Recognized | None = None

    def report(self, topic: str) -> str:
        """Return a line for the terminal."""
        notes = [f"{len(self.found.columns)} columns", *filter(None, [self.found.note])]
        if self.key_found is not None:
            notes += [f"keys are {self.key_form}: {len(self.key_found.columns)} columns"]
            notes += filter(None, [self.key_found.note])
        return f"{self.records:,} records of topic {topic} are {self.form}: {'; '.join(notes)}"

    @property
    def yaml(self) -> str:
        """The value of `format`, indented as in a template, and `key_format` behind it."""
        value = "\n" + textwrap.indent(self._entry(self.form, self.found), " " * 6)
        if self.key_found is None:
            return value
        key = textwrap.indent(self._entry(self.key_form, self.key_found), " " * 6)
        return f"{value}\n    key_format:  # its columns have `{KEY_PREFIX}` in front of their names\n{key}"

    def _entry(self, form: str, found: Recognized) -> str:
        lines = [f"type: {form}", *(_line(key, value) for key, value in found.keys.items())]
        if found.needs_registry:
            lines.append("registry:")
            lines += [f"  {_line(key, value, is_reference=True)}" for key, value in self.registry.keys.items()]
        return "\n".join(lines)

    @property
    def columns(self) -> str:
        """The columns that the first step selects. A column of the key is left out if the value has one of its name."""
        names = {name.lower() for name in self.found.columns}
        of_key = [name for name in (self.key_found.columns if self.key_found else ()) if name.lower() not in names]
        return ", ".join(map(as_column, [*self.found.columns, *(KEY_PREFIX + name for name in of_key)]))

    @property
    def files(self) -> Mapping[str, str]:
        """Files to be written beside the spec: path from its folder, and text."""
        return {**self.found.files, **(self.key_found.files if self.key_found else {})}


def look_at(topic: str, name: str, source: Template, registry: Registry, folder: Path) -> Sampled:
    """Read the newest records of a topic, and return the format that takes all of them.

    `folder`: of the new spec, where relative paths start. Blocks until they are read. Raises SpecError, SourceError.
    """
    from spark_jobs.operations.sampling import newest_records  # loads Arrow

    if not _TOPIC.fullmatch(topic):
        raise SpecError(f"{topic!r} is not the name of a topic", remedy="give letters, digits, '.', '_' and '-'")
    if "<format>" not in source.entry:
        raise SpecError(f"{source.title} has no topics", remedy="leave out --from-topic")
    entry = load_source(source.entry.replace("<topic>", topic).replace("<format>", "{type: raw}"), os.environ, folder)
    sample = newest_records(entry, RECORDS)
    if not sample.values:
        raise SpecError(f"topic {topic} has no record with a value", remedy="leave out --from-topic, or write one")
    formats, resolved = _formats(), registry.resolved
    form, found = _recognized(formats, name, sample.values, resolved)
    if found is None:
        raise SpecError(f"no installed format takes the records of topic {topic}", remedy="see `eos connectors`")
    sampled = Sampled(form, len(sample.values), found, registry)
    if formats[form].is_special or not sample.keys:  # change events: their format reads the keys
        return sampled
    structured = {each: model for each, model in formats.items() if each not in _LAST and not model.is_special}
    key_form, of_keys = _recognized(structured, f"{name}-key", sample.keys, resolved)
    if of_keys is None or _is_taken(of_keys, found):
        return sampled
    return replace(sampled, key_form=key_form, key_found=of_keys)


def _recognized(
    formats: Mapping[str, type[FormatEntry]], name: str, values: Sequence[bytes], registry: Mapping[str, str]
) -> tuple[str, Recognized | None]:
    """Return the first format that takes all values, and how it decodes them."""
    for form, model in formats.items():
        found = model.recognize(name, values, registry)
        if found is not None:
            return form, found
    return "", None


def _is_taken(keys: Recognized, values: Recognized) -> bool:
    """Whether a column of the key has the name of a column of the value, also with the prefix."""
    names = {name.lower() for name in values.columns}
    return any((KEY_PREFIX + name).lower() in names for name in keys.columns)


def _formats() -> dict[str, type[FormatEntry]]:
    found = {name: plugins.load(plugins.FORMATS, name, FormatEntry) for name in plugins.installed(plugins.FORMATS)}
    return dict(
        sorted(found.items(), key=lambda each: (each[0] in _LAST, each[0] == _LAST[-1], not each[1].is_special))
    )


def _line(key: str, value: str, *, is_reference: bool = False) -> str:
    """Return `key: value` of YAML. A long text without odd spaces is folded."""
    text = value if is_reference else value.replace("${", "$${")
    is_plain = text.isprintable() and text.isascii() and text == " ".join(text.split())
    if len(text) + len(key) < _WIDTH or not is_plain:
        return f"{key}: {json.dumps(text)}"
    folded = textwrap.TextWrapper(
        _WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )  # a line end inside of a name would become a space of it
    return f"{key}: >-\n" + folded.fill(text)
