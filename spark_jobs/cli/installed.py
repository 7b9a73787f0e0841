"""`eos connectors`: the installed plugins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from inspect import cleandoc
from typing import Any, Final

import typer
from rich.table import Table

from connectors.api import plugins
from connectors.api.database import Database
from connectors.api.entry import SinkEntry, SourceEntry
from connectors.api.format import FormatEntry
from connectors.api.secret import Secrets
from spark_jobs.cli.options import AsJson, Debug
from spark_jobs.cli.output import out

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


def connectors(as_json: AsJson = False, debug: Debug = False) -> None:
    """List what a spec can name: sources, sinks, formats, secrets and databases, with the distribution of each.

    Of a sink it shows the guarantee for each value of `commit`. A plugin that cannot be used is listed with the error
    and the remedy; no spec that does not name it is affected.

    Exit code: 0; 1 if a plugin cannot be used.

    Examples:

        eos connectors

        eos connectors --json
    """
    with out.kept():
        found = list(inventory())
    usable = not any(each.error for each in found)
    if as_json:
        out.facts({"ok": usable, "plugins": [asdict(each) for each in found]})
    else:
        out.show(_table(found))
    if not usable:
        raise typer.Exit(1)


def _table(found: list[Listed]) -> Table:
    table = Table()
    for heading in ("kind", "name", "distribution", "guarantees"):
        table.add_column(heading, overflow="fold")
    for each in found:
        origin = f"{each.distribution} {each.version}\n{each.origin}"
        table.add_row(*map(out.text, (plugins.GROUPS[each.group], each.name, origin, _about(each))))
    return table


def _about(each: Listed) -> str:
    if each.error:
        return f"cannot be used: {each.error}\n→ {each.remedy}"
    return "\n".join(f"{commit}: {promise}" for commit, promise in each.guarantees.items()) or each.description
