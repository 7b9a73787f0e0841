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
    (
        "committable binary, refused binary",
        *(f"{name} double" for name in _SECONDS),
        "source string, skipped bigint, schemas string, wanted binary, wanted_by string",
    )
)
"""Schema of what a task returns: one row for each of its sinks, one for the rows that it put aside, if any, and one for
the source that it reads, if any: how many records it left out, and which schemas they named. A task that wrote nothing,
because a sink does not know some tables yet, returns a row for each of them."""

_SCHEMA: Final = pa.schema(
    [
        ("committable", pa.binary()),
        ("refused", pa.binary()),
        *((name, pa.float64()) for name in _SECONDS),
        ("source", pa.string()),
        ("skipped", pa.int64()),
        ("schemas", pa.string()),
        ("wanted", pa.binary()),
        ("wanted_by", pa.string()),
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


def of_source(source: str, left_out: int, schemas: str) -> pa.RecordBatch:
    """Return the row of a task that reads a source: records left out, and the schemas of the others as JSON."""
    row = {"source": source, "skipped": left_out, "schemas": schemas}
    return pa.RecordBatch.from_pylist([row], schema=_SCHEMA)


def of_unknown_tables(wanted: Sequence[tuple[str, pa.Schema]]) -> pa.RecordBatch:
    """Return the rows of a task that wrote nothing. `wanted`: sink, and schema of rows whose table it does not know."""
    rows = [{"wanted": schema.serialize().to_pybytes(), "wanted_by": sink} for sink, schema in wanted]
    return pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)


def unknown_tables(acknowledged: pa.Table) -> dict[str, list[pa.Schema]]:
    """Return by sink the schemas of rows whose table it does not know, each once."""
    found: dict[str, dict[bytes, pa.Schema]] = {}
    pairs = (acknowledged.column(name).to_pylist() for name in ("wanted_by", "wanted"))
    for sink, schema in zip(*pairs, strict=True):
        if schema is not None:
            found.setdefault(sink, {})[schema] = pa.ipc.read_schema(pa.py_buffer(schema))
    return {sink: list(schemas.values()) for sink, schemas in found.items()}


def schemas(acknowledged: pa.Table, source: str) -> frozenset[tuple[str, str]]:
    """Return the schemas that the records of a source have named in all tasks that read it."""
    return schemas_in(filter(None, _of_source(acknowledged, "schemas", source)))


def skipped(acknowledged: pa.Table, source: str) -> int:
    """Return how many records of a source all tasks that read it have left out."""
    return sum(_of_source(acknowledged, "skipped", source))


def _of_source(acknowledged: pa.Table, column: str, source: str) -> list[Any]:
    pairs = zip(*(acknowledged.column(name).to_pylist() for name in ("source", column)), strict=True)
    return [value for name, value in pairs if name == source]


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
