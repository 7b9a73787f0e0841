"""Tables that a start creates or changes, where the spec says so: `create: if-missing`, `evolve: add-columns`.

The statements are the same for every database but for its types. They run on the driver when a sink is opened: by then
recovery has ended what older epochs left prepared, whose locks they would wait for (R3), and no task has begun. What is
there already stays as it is, except columns that `evolve: add-and-widen` widens. Afterwards the table is compared with
the rows like any other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Protocol, TypeVar

import pyarrow as pa
from pyarrow import types

from connectors.api.contracts import Finding
from connectors.log.keyed import Upsert, check_upsert
from connectors.spark_types import spark_type
from connectors.sql.kinds import is_text
from connectors.sql.schema_match import Plan, RowColumn, SchemaMatch, row_columns
from connectors.sql.statements import Connected, StatementError
from connectors.sql.widening import TableWidening, Widener
from eos.errors import SinkUnavailableError, TargetError

_log: Final = logging.getLogger("eos.sink")

KEY_LENGTH: Final = 255
"""Characters of a text in a key: no index takes texts of any length, and three columns of this one fit into one."""

Tests = Mapping[Callable[[pa.DataType], bool], str]


@dataclass(frozen=True, slots=True)
class Types:
    """Column types of a database. A type holds every value of its Arrow type unaltered, in the widest form."""

    quote: Callable[[str], str]  # quotes a name for a format string
    plain: Tests  # the first that fits
    decimal: Callable[[pa.DataType], str | None]
    in_key: Tests  # before those of `plain`; empty text: none, as where equal values need not be the same
    bounded_text: str = ""  # a text of at most `{}` characters; empty where a length means nothing
    options: str = ""  # behind the columns of a new table
    has_schemas: bool = True  # so that a name with a dot is one of another schema
    longest_name: int | None = None  # bytes, where the server cuts off the rest in silence

    def of(self, kind: pa.DataType, *, in_key: bool = False) -> str | None:
        """Return the SQL type for an Arrow type; None if there is none."""
        if types.is_dictionary(kind):
            return self.of(kind.value_type, in_key=in_key)
        if types.is_decimal(kind):
            return self.decimal(kind)
        tests = [*(self.in_key.items() if in_key else ()), *self.plain.items()]
        return next((declared or None for test, declared in tests if test(kind)), None)


@dataclass(frozen=True, slots=True)
class DeclaredTypes:
    """The types that the spec declares for columns that a start creates, as SQL."""

    types: Mapping[str, str] = field(default_factory=dict)  # by column, as the rows name it
    longest_text: int | None = None  # characters of every other text; None: any length

    def of(self, row: RowColumn, types: Types, *, in_key: bool) -> str | None:
        """Return the type of a column; None if no type of the database fits."""
        if row.name in self.types:
            return self.types[row.name]
        if self.longest_text is not None and types.bounded_text and is_text(row.kind):
            return types.bounded_text.format(min(self.longest_text, KEY_LENGTH) if in_key else self.longest_text)
        return types.of(row.type, in_key=in_key)


class Table(Protocol):
    """A table that exists."""

    @property
    def quoted(self) -> str:
        """The quoted name, for a format string."""


_Table = TypeVar("_Table", bound=Table)
_Plan = TypeVar("_Plan", bound=Plan)


@dataclass(frozen=True, slots=True)
class SchemaMigrator(Generic[_Table, _Plan]):
    """The migration of one table at a start. Statements are format strings for `Connected`."""

    sink: str
    creates: bool  # the table, where it is missing
    evolves: bool  # it, by columns of the rows that it lacks
    types: Types
    table: str  # as the spec names it
    rows: tuple[RowColumn, ...]
    key: Collection[str]  # of an upsert, as the rows name it; else empty
    look: Callable[
        [], tuple[_Table, SchemaMatch[_Plan]] | None
    ]  # at the table as it is, each time; None: there is none
    declared: DeclaredTypes = DeclaredTypes()
    widening: TableWidening[_Table, _Plan] | None = None  # None: no type of a column changes

    def plan(self) -> list[str]:
        """Return the statements after which the table takes the rows.

        Empty if the spec does not allow them, or if they would not be enough. Raises TargetError for a column without a
        suitable type.
        """
        seen = self.look()
        return [*self._changes(seen), *self._additions(self._widened(seen))]

    def _additions(self, seen: tuple[_Table, SchemaMatch[_Plan]] | None) -> list[str]:
        """Return the statements of `plan` for what is missing."""
        if seen is None:
            return [self.create()] if self.creates else []
        table, fit = seen
        added = () if fit.wrong else self._added(fit)
        return [f"ALTER TABLE {table.quoted} ADD COLUMN {self._column(row)}" for row in added]

    def make(self, server: Connected) -> tuple[tuple[_Table, SchemaMatch[_Plan]] | None, tuple[str, ...]]:
        """Run what is planned. In autocommit; mostly there is nothing to do.

        Returns the table as it is then, and the statements that have changed it.

        Others may do the same at this moment, and the answer to a statement may be lost: whoever fails looks again, and
        has failed only if it is not done. Raises TargetError with the statement where the server refuses it,
        SinkUnavailableError, StatementError.
        """
        seen, created = self.look(), list[str]()
        if seen is None:
            created = self._run(server, self._additions(None))
            seen = self.look()  # another may have created it for other rows
        seen, widened = self._widen(server, seen)
        missing = self._additions(seen)
        added = self._run(server, missing)
        return self.look() if missing else seen, (*created, *widened, *added)

    def _run(self, server: Connected, statements: Sequence[str]) -> list[str]:
        """Run statements of `plan`; returns what has changed the table."""
        ran = []
        for statement in statements:
            try:
                server.execute(statement)
            except StatementError as error:
                if statement in self.plan():
                    raise self._refused(statement, error) from error
            else:
                ran.append(self._log(statement))
        return ran

    def _widen(
        self, server: Connected, seen: tuple[_Table, SchemaMatch[_Plan]] | None
    ) -> tuple[tuple[_Table, SchemaMatch[_Plan]] | None, list[str]]:
        """Run the statement of `plan` that widens columns; returns the table as it is then, and the statement.

        It is planned under the lock. Planned before, it could narrow a column that another driver widened meanwhile.
        """
        if self.widening is None or seen is None or not self.widening.is_due(seen):
            return seen, []
        self._additions(self._widened(seen))  # raises before anything has changed
        statements: list[str] = []
        try:
            with self.widening.widener.lock(seen[0]):
                statements = self._changes(self.look())
                for statement in statements:
                    server.execute(statement)
        except StatementError as error:
            seen = self.look()
            if seen is None or not self.widening.is_due(seen):
                return seen, []
            raise self._refused((statements or self._changes(seen))[0], error) from error
        ran = [self._log(statement) for statement in statements]
        return self.look(), ran

    def _log(self, statement: str) -> str:
        text = statement % ()
        _log.info("sink %s: %s", self.sink, text)
        return text

    def _changes(self, seen: tuple[_Table, SchemaMatch[_Plan]] | None) -> list[str]:
        """Return the statement of `plan` that widens columns, if there is one."""
        return [] if self.widening is None or seen is None else self.widening.statements(seen)

    def _widened(self, seen: tuple[_Table, SchemaMatch[_Plan]] | None) -> tuple[_Table, SchemaMatch[_Plan]] | None:
        return seen if self.widening is None or seen is None else self.widening.widened(seen)

    def dry_run(self) -> tuple[_Table, SchemaMatch[_Plan]] | None:
        """Return the table as `make` would leave it, without a change; None if `make` would create it."""
        seen = self._widened(self.look())
        if seen is None:
            return None
        table, fit = seen
        added = self._added(fit)
        return table, replace(fit, lacking=tuple(row for row in fit.lacking if row not in added))

    def columns(self, seen: tuple[_Table, SchemaMatch[_Plan]] | None) -> list[str]:
        """Return the columns that are written to the result of `dry_run`. Raises TargetError if it does not fit."""
        if seen is None:
            return [row.name for row in self._created()]
        planned = {plan.name for plan in seen[1].plans}
        return [row.name for row in self.rows if row.name in planned or not row.optional]

    def create(self) -> str:
        """Return the statement that creates the table with all needed columns and the key as primary key."""
        lines = [f"{self._column(row)}{self._not_null(row)}" for row in self._created()]
        if self.key:
            columns = {row.name: row.column for row in self.rows}
            lines.append(f"PRIMARY KEY ({', '.join(self.types.quote(columns[name]) for name in self.key)})")
        if not lines:
            raise TargetError(f"sink {self.sink}: the rows have no column for a table", remedy="select some")
        return f"CREATE TABLE IF NOT EXISTS {self._name()} ({', '.join(lines)}){self.types.options}"

    def remedy(self) -> str:
        """Return the remedy for a missing table."""
        try:
            return f"{self.create() % ()}; or let a run do that: create: if-missing"
        except TargetError:  # it cannot be said how: no more than that
            return "create it"

    def findings(self, check: str) -> Iterator[Finding]:
        """Yield the findings of `eos doctor` about the plan."""
        will = "is missing; will create" if self.look() is None else "will change"
        for statement in self.plan():
            yield Finding(check, True, f"{self.table} {will}: {statement % ()}")

    def _created(self) -> list[RowColumn]:
        return [row for row in self.rows if row.name in self.key or not row.optional]

    def _added(self, fit: SchemaMatch[Any]) -> list[RowColumn]:
        """A column of the key is missing in the unique index, too, where it cannot be added."""
        return [row for row in fit.lacking if row.name not in self.key] if self.evolves else []

    def _column(self, row: RowColumn) -> str:
        in_key = row.name in self.key
        declared = self.declared.of(row, self.types, in_key=in_key)
        if declared is None:
            message = f"sink {self.sink}: no type{' of a key' if in_key else ''} of this database holds "
            message += f"{spark_type(row.type)} unaltered, for column {row.column!r}"
            raise TargetError(message, remedy="cast it in a transform")
        return f"{self._quoted(row.column)} {declared}"

    def _not_null(self, row: RowColumn) -> str:
        return "" if row.nullable and row.name not in self.key else " NOT NULL"

    def _name(self) -> str:
        schema, dot, table = self.table.partition(".")
        if dot and self.types.has_schemas:
            return f"{self._quoted(schema)}.{self._quoted(table)}"
        return self._quoted(self.table)

    def _quoted(self, name: str) -> str:
        longest = self.types.longest_name
        if longest is not None and len(name.encode()) > longest:
            message = f"sink {self.sink}: a name in this database has {longest} bytes at most, and {name!r} more"
            raise TargetError(message, remedy="choose a shorter one: a column's with `columns`")
        return self.types.quote(name)

    def _refused(self, statement: str, error: StatementError) -> Exception:
        problem = error.connector_error(f"sink {self.sink}: {statement % ()}")
        if isinstance(problem, SinkUnavailableError):
            return problem
        message = f"sink {self.sink}: the server refuses a statement that the spec allows: {error.text}"
        return TargetError(message, remedy=f"let an administrator run it, or a statement like it: {statement % ()}")


class TableOptions(Protocol):
    """The settings of a sink that describe its table."""

    @property
    def name(self) -> str:
        """The name of the sink."""

    @property
    def table(self) -> str:
        """The name of the table, as in the spec."""

    @property
    def upsert(self) -> Upsert | None:
        """The settings of the merge; None: rows are appended."""

    @property
    def renamed(self) -> Mapping[str, str]:
        """By column of the table, its column of the rows."""

    @property
    def create(self) -> bool:
        """Whether a start creates a missing table."""

    @property
    def evolve(self) -> bool:
        """Whether a start adds missing columns to the table."""

    @property
    def declared(self) -> DeclaredTypes:
        """The types of columns that a start creates, as far as the spec declares them."""


def migrator_of(
    sink: TableOptions,
    schema: pa.Schema,
    types: Types,
    find: Callable[[], _Table | None],
    fit: Callable[[_Table, tuple[RowColumn, ...]], SchemaMatch[_Plan]],
    widener: Widener[_Table] | None = None,
) -> SchemaMigrator[_Table, _Plan]:
    """Return the migrator of a sink's table. Raises TargetError if the rows do not fit the spec.

    Args:
        sink: its settings.
        schema: the schema of the rows.
        types: the column types of the database.
        find: reads the table from the server, each time.
        fit: compares rows with a table.
        widener: changes types of columns; None: none changes.
    """
    rows = rows_of(sink, schema)

    def look() -> tuple[_Table, SchemaMatch[_Plan]] | None:
        table = find()
        return None if table is None else (table, fit(table, rows))

    key = () if sink.upsert is None else sink.upsert.key
    widening = None if widener is None else TableWidening(widener, rows, sink.declared.types, fit)
    return SchemaMigrator(
        sink.name, sink.create, sink.evolve, types, sink.table, rows, key, look, sink.declared, widening
    )


def rows_of(sink: TableOptions, schema: pa.Schema) -> tuple[RowColumn, ...]:
    """Return the columns of the rows as the spec names them. Raises TargetError where that cannot be."""
    rows = row_columns(sink.name, schema, sink.renamed, sink.upsert)
    if unknown := [name for name in sink.declared.types if name not in schema.names]:
        message = f"sink {sink.name}: `types` names a column that the rows do not have: {', '.join(unknown)}"
        raise TargetError(message, remedy=f"name one of {', '.join(schema.names)}")
    if sink.upsert is not None:
        check_upsert(sink.name, sink.upsert, schema)
    return rows


def plan_findings(
    sink: TableOptions,
    check: str,
    find: Callable[[], object | None],
    maker: Callable[[], SchemaMigrator[_Table, _Plan]] | None,
) -> Iterator[Finding]:
    """Yield the findings of `eos doctor` about a migration. `maker`: None if the schema of the rows is not known."""
    if maker is not None:
        yield from maker().findings(check)
    elif sink.create and find() is None:
        yield Finding(check, True, f"{sink.table} is missing; will be created for the rows of the job")


def repeat_problems(unique: Iterable[str]) -> list[str]:
    """Return the problems of a table for at-least-once. `unique`: its unique indexes, which refuse a repeated row."""
    names = ", ".join(unique)
    reason = "would refuse a row that is written again after a failure, and stop the pipeline for good"
    return [f"unique key {names} {reason}: at-least-once takes a table without one"] if names else []


def with_order(upsert: Upsert | None, names: list[str]) -> tuple[str, ...]:
    """Return the columns for writers: the written columns, followed by the columns that order merged rows."""
    return tuple(names) if upsert is None else upsert.after(names)
