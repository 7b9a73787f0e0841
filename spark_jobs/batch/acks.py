"""How tasks acknowledge: through the rows that their job returns, of which Spark takes each task's once (R5).

Beside what was prepared they bring where their time went. That is for figures, and no part of the decision.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any, Final

import pyarrow as pa

from connectors.dead_letters import RECORD
from connectors.row_bisector import decode_dead_letters
from spark_jobs.batch.stopwatch import Stopwatch
from spark_jobs.observe.history.model import Acknowledgement
from spark_jobs.query.marks import schemas_in
from twophase.codec import decode_committable, encode_committable
from twophase.ids import sink_key
from twophase.values import Committable

_SECONDS: Final = ("at", "read_s", "write_s", "prepare_s")

ACKNOWLEDGEMENT: Final = ", ".join(
    ("committable binary", "refused binary", *(f"{name} double" for name in _SECONDS), "skipped bigint, schemas string")
)
"""Schema of what a task returns: one row for each of its sinks, one for the rows that it put aside, if any, and one for
how many records it left out and which schemas they named, if it reads a source and there are any."""

_SCHEMA: Final = pa.schema(
    [
        ("committable", pa.binary()),
        ("refused", pa.binary()),
        *((name, pa.float64()) for name in _SECONDS),
        ("skipped", pa.int64()),
        ("schemas", pa.string()),
    ]
)


def nothing() -> pa.Table:
    """What a job acknowledges that did not have to run.

    No constant: to make an array imports pandas, a quarter of a second for each of Spark's planners.
    """
    return _SCHEMA.empty_table()


def acknowledgement(written: Sequence[Committable], watch: Stopwatch, refused: bytes | None = None) -> pa.RecordBatch:
    """What a task returns. `watch`: of the same sinks, in their order."""
    now = time.time()
    rows: list[dict[str, Any]] = [
        {
            "committable": encode_committable(each),
            "at": now,
            "read_s": watch.read_s,
            "write_s": watch.write_s[place],
            "prepare_s": watch.prepare_s[place],
        }
        for place, each in enumerate(written)
    ]
    if refused is not None:
        rows.append({"refused": refused})
    return pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)


def of_source(left_out: int, schemas: str) -> pa.RecordBatch:
    """Return the row of a task that reads a source: records left out, and the schemas of the others as JSON."""
    return pa.RecordBatch.from_pylist([{"skipped": left_out, "schemas": schemas}], schema=_SCHEMA)


def schemas(acknowledged: pa.Table) -> frozenset[tuple[str, str]]:
    """Return the schemas of all tasks, as far as they read sources."""
    return schemas_in(filter(None, acknowledged.column("schemas").to_pylist()))


def skipped(acknowledged: pa.Table) -> int:
    """How many records all tasks have left out, as far as they read sources."""
    return sum(each for each in acknowledged.column("skipped").to_pylist() if each is not None)


def committables(acknowledged: pa.Table) -> list[Committable]:
    """Return the committables of all tasks."""
    return [decode_committable(each) for each in acknowledged.column("committable").to_pylist() if each is not None]


def refused(acknowledged: pa.Table) -> pa.Table:
    """All rows that tasks have put aside, as dead_letters.RECORD."""
    letters = [decode_dead_letters(each) for each in acknowledged.column("refused").to_pylist() if each is not None]
    return pa.concat_tables([RECORD.empty_table(), *letters])


def by_sink(names: Sequence[str], written: Iterable[Committable]) -> dict[str, tuple[Committable, ...]]:
    """What tasks have acknowledged, for each of the sinks; for one without any, nothing."""
    found: dict[str, list[Committable]] = {sink_key(name): [] for name in names}
    keys = dict(zip(found, names, strict=True))
    for each in written:
        found[each.transaction.sink].append(each)
    return {keys[key]: tuple(group) for key, group in found.items()}


def measured(
    names: Sequence[str], acknowledged: pa.Table, written: Sequence[Committable]
) -> tuple[Acknowledgement, ...]:
    """Where the time of each writer went. `names`: of all sinks; `written`: what `committables` has found there."""
    keys = {sink_key(name): name for name in names}
    is_writer = acknowledged.column("committable").is_valid().to_pylist()
    seconds = zip(*(acknowledged.column(name).to_pylist() for name in _SECONDS), strict=True)
    of_writers = compress(seconds, is_writer)
    return tuple(
        _measured(keys[each.transaction.sink], each, *its) for each, its in zip(written, of_writers, strict=True)
    )


def _measured(sink: str, of: Committable, at: float, *seconds: float) -> Acknowledgement:
    writer = of.transaction
    return Acknowledgement(sink, writer.task, writer.spark_attempt, of.rows, of.bytes, at, *seconds)
