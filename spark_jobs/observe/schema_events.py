"""Changes of schemas, as events of the history: columns that a sink gets, and tables that it has created or changed.

The columns of the newest start are kept, and a later start compares them with its own. The file is not synced, and not
missed: without it, a start reports nothing and writes it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from connectors.api.contracts import Sink
from connectors.api.table_rows import TableChange, TableChanges
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


def statements(sinks: Iterable[Sink], at: float) -> list[Event]:
    """Return an event for each statement by which a start has created or changed a table. `sinks`: opened."""
    return [
        Event(at, "schema", f"sink {sink.name}: {statement}", facts={"sink": sink.name, "statement": statement})
        for sink in sinks
        if isinstance(sink, TableChanges)
        for statement in sink.ran
    ]


def change(sink: str, made: TableChange, at: float, checkpoint_id: int) -> Event:
    """Return the event of a table that a sink has created or changed for the records of a checkpoint."""
    facts = {"sink": sink, "table": made.table, "topic": made.topic, "statement": made.statement}
    message = f"sink {sink}: {made.statement}, for records of topic {made.topic}"
    return Event(at, "schema", message, checkpoint_id=checkpoint_id, facts=facts)


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
