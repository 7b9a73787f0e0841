"""`eos init --from-topic`: the format and the columns of a topic, from its newest records."""

from __future__ import annotations

import json
import os
import re
import textwrap
from dataclasses import dataclass
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

    def report(self, topic: str) -> str:
        """Return a line for the terminal."""
        notes = [f"{len(self.found.columns)} columns", *filter(None, [self.found.note])]
        return f"{self.records:,} records of topic {topic} are {self.form}: {'; '.join(notes)}"

    @property
    def yaml(self) -> str:
        """The value of `format`, indented as in a template."""
        lines = [f"type: {self.form}", *(_line(key, value) for key, value in self.found.keys.items())]
        if self.found.needs_registry:
            lines.append("registry:")
            lines += [f"  {_line(key, value, is_reference=True)}" for key, value in self.registry.keys.items()]
        return "\n" + textwrap.indent("\n".join(lines), " " * 6)

    @property
    def columns(self) -> str:
        """The columns as the first step selects them."""
        return ", ".join(map(as_column, self.found.columns))


def look_at(topic: str, name: str, source: Template, registry: Registry) -> Sampled:
    """Read the newest records of a topic, and return the format that takes all of them.

    Blocks until they are read. Raises SpecError, SourceError.
    """
    from spark_jobs.operations.sampling import newest_values  # loads Arrow

    if not _TOPIC.fullmatch(topic):
        raise SpecError(f"{topic!r} is not the name of a topic", remedy="give letters, digits, '.', '_' and '-'")
    if "<format>" not in source.entry:
        raise SpecError(f"{source.title} has no topics", remedy="leave out --from-topic")
    entry = load_source(source.entry.replace("<topic>", topic).replace("<format>", "{type: raw}"), os.environ)
    values = newest_values(entry, RECORDS)
    if not values:
        raise SpecError(f"topic {topic} has no record with a value", remedy="leave out --from-topic, or write one")
    resolved = registry.resolved
    for form, model in _formats().items():
        found = model.recognize(name, values, resolved)
        if found is not None:
            return Sampled(form, len(values), found, registry)
    raise SpecError(f"no installed format takes the records of topic {topic}", remedy="see `eos connectors`")


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
    return f"{key}: >-\n" + "\n".join(textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  "))
