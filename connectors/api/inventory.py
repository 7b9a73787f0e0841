"""The installed plugins of all groups, each with its guarantees or the reason why it cannot be used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any, Final

from connectors.api import plugins
from connectors.api.database import Database
from connectors.api.entry import SinkEntry, SourceEntry
from connectors.api.format import FormatEntry
from connectors.api.secret import Secrets

BASES: Final[Mapping[str, type[Any]]] = {
    plugins.SOURCES: SourceEntry,
    plugins.SINKS: SinkEntry,
    plugins.FORMATS: FormatEntry,
    plugins.SECRETS: Secrets,
    plugins.DATABASES: Database,
}
"""The base class of each group's plugins."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One plugin, as `eos connectors` shows it."""

    group: str
    name: str
    distribution: str
    version: str
    origin: str
    description: str  # the first paragraph of the class's docstring
    guarantees: Mapping[str, str]  # of a sink: the promise, by value of `commit`
    error: str = ""
    remedy: str = ""


def inventory() -> Iterator[Listed]:
    """Yield all installed plugins. Imports each; an error of one is in its own line."""
    for group, base in BASES.items():
        for name, found in plugins.installed(group).items():
            for plugin in found:
                yield _listed(plugin, name, base)


def _listed(plugin: plugins.Plugin, name: str, base: type[Any]) -> Listed:
    known = (plugin.group, name, plugin.distribution, plugin.version, plugin.origin)
    try:
        loaded = plugins.load(plugin.group, name, base)
    except plugins.PluginError as error:
        return Listed(*known, "", {}, error.message, error.remedy)
    paragraph = cleandoc(loaded.__doc__ or "").partition("\n\n")[0]
    promises = getattr(loaded, "promises", {})
    if not isinstance(promises, Mapping):
        reason = f"{plugins.GROUPS[plugin.group]} {name!r} of {plugin}: `promises` is a {type(promises).__name__}"
        return Listed(*known, "", {}, reason, "correct the plugin: `promises` maps each value of `commit` to a text")
    return Listed(*known, " ".join(paragraph.split()), dict(promises))
