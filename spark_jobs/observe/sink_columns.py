"""Columns that each sink gets, as the newest start had them: a later start reports a change of schema.

Not synced, and not missed: without the file, a start reports nothing and writes it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from spark_jobs.observe.history.model import Event

_log = logging.getLogger("eos.runner")

NAME: Final = "columns.json"
"""Below `checkpoint.location`."""

Columns = Mapping[str, str]
"""Type by name, as Spark writes it."""


def changes(location: Path, now: Mapping[str, Columns], at: float) -> list[Event]:
    """Return an event for each sink whose columns differ from the last start, and keep the columns of this one."""
    path = location / NAME
    before = _read(path)
    if before == {sink: dict(columns) for sink, columns in now.items()}:
        return []
    partial = path.with_suffix(".partial")
    try:
        partial.write_text(json.dumps({"format": 1, "sinks": now}, ensure_ascii=False))
        partial.replace(path)
    except OSError as error:
        _log.warning("%s is not kept: %s", path, error.strerror)
    return [
        Event(at, "schema", f"sink {sink}: {'; '.join(found)}", facts={"sink": sink})
        for sink, columns in now.items()
        if sink in before and (found := list(_differences(before[sink], columns)))
    ]


def _differences(before: Columns, now: Columns) -> Iterator[str]:
    for name in [*before, *(each for each in now if each not in before)]:
        old, new = before.get(name), now.get(name)
        if old is None:
            yield f"column {name} {new} is new"
        elif new is None:
            yield f"column {name} {old} is missing"
        elif old != new:
            yield f"column {name} was {old} and is {new}"


def _read(path: Path) -> dict[str, dict[str, str]]:
    try:
        found = json.loads(path.read_text())
        if found["format"] == 1:
            return {str(sink): {str(n): str(kind) for n, kind in of.items()} for sink, of in found["sinks"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return {}
