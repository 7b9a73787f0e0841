"""`eos connectors`: the installed plugins."""

from __future__ import annotations

from dataclasses import asdict

import typer
from rich.table import Table

from connectors.api.inventory import Listed, inventory
from connectors.api.plugins import GROUPS
from spark_jobs.cli.options import AsJson, Debug
from spark_jobs.cli.output import out


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
        table.add_row(*map(out.text, (GROUPS[each.group], each.name, origin, _about(each))))
    return table


def _about(each: Listed) -> str:
    if each.error:
        return f"cannot be used: {each.error}\n→ {each.remedy}"
    return "\n".join(f"{commit}: {promise}" for commit, promise in each.guarantees.items()) or each.description
