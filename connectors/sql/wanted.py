"""What a spec wants of a table, whatever database it is in: its maker, and what `eos doctor` foresees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.log.keyed import Upsert, check_upsert
from connectors.sql.fitting import Fit, Plan, RowColumn, row_columns
from connectors.sql.making import Maker, Table, Types


class Wanted(Protocol):
    """A sink, as far as the spec describes its table."""

    @property
    def name(self) -> str:
        """The sink's."""

    @property
    def table(self) -> str:
        """As the spec names it."""

    @property
    def upsert(self) -> Upsert | None:
        """How rows are merged; None: they are added."""

    @property
    def renamed(self) -> Mapping[str, str]:
        """By column of the table, the column of the rows that it takes."""

    @property
    def create(self) -> bool:
        """At a start, the table where there is none."""

    @property
    def evolve(self) -> bool:
        """At a start, by columns of the rows that the table lacks."""


_Table = TypeVar("_Table", bound=Table)
_Plan = TypeVar("_Plan", bound=Plan)


def maker_of(
    sink: Wanted,
    schema: pa.Schema,
    types: Types,
    find: Callable[[], _Table | None],
    fit: Callable[[_Table, tuple[RowColumn, ...]], Fit[_Plan]],
) -> Maker[_Table, _Plan]:
    """What a start does for the table of a sink. Raises TargetError for rows that cannot be what the spec says.

    `find`: looks for the table as it is, each time. `fit`: compares rows with it.
    """
    rows = rows_of(sink, schema)

    def look() -> tuple[_Table, Fit[_Plan]] | None:
        table = find()
        return None if table is None else (table, fit(table, rows))

    key = () if sink.upsert is None else sink.upsert.key
    return Maker(sink.name, sink.create, sink.evolve, types, sink.table, rows, key, look)


def rows_of(sink: Wanted, schema: pa.Schema) -> tuple[RowColumn, ...]:
    """Return the columns of the rows as the spec names them. Raises TargetError where that cannot be."""
    rows = row_columns(sink.name, schema, sink.renamed, sink.upsert)
    if sink.upsert is not None:
        check_upsert(sink.name, sink.upsert, schema)
    return rows


def ahead(
    sink: Wanted, check: str, find: Callable[[], object | None], maker: Callable[[], Maker[_Table, _Plan]] | None
) -> Iterator[Finding]:
    """What `eos doctor` says, as `check`, of what a run would make. `maker`: None where the rows are not known."""
    if maker is not None:
        yield from maker().findings(check)
    elif sink.create and find() is None:
        yield Finding(check, True, f"{sink.table} is missing; will be created for the rows of the job")


def refusing_repeats(unique: Iterable[str]) -> list[str]:
    """What keeps a table from being written to at-least-once. `unique`: its indexes that could meet a row twice."""
    names = ", ".join(unique)
    reason = "would refuse a row that is written again after a failure, and stop the pipeline for good"
    return [f"unique key {names} {reason}: at-least-once takes a table without one"] if names else []


def with_order(upsert: Upsert | None, names: list[str]) -> tuple[str, ...]:
    """The columns of the rows that writers are given: those that are written, and those by which rows are compared."""
    return tuple(names) if upsert is None else upsert.after(names)
