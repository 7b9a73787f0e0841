"""A table of a database server as a sink, in each variant: what is alike whatever server it is.

What a database says for itself stands in its own sink: see connectors.sql.server.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Final, Self

import pyarrow as pa

from connectors.api.contracts import Finding, Writer
from connectors.api.database import LEARNS_AT_ONCE
from connectors.dead_letters import SCHEMA
from connectors.known import decode_known, encode_known, must_wait
from connectors.log.committer import LogCommitter
from connectors.log.keyed import Upsert
from connectors.log.keyed_rows import log_writer, row_writer, segment_schema
from connectors.log.place import LogPlace
from connectors.log.writer import Output, RowWriter
from connectors.sql import checks
from connectors.sql.log.ledger import LogTarget, SqlLedger
from connectors.sql.log.refusing import DeadLettersTable
from connectors.sql.partitioning import Partitioning
from connectors.sql.schema_match import RowColumn, SchemaMatch
from connectors.sql.schema_migration import (
    DeclaredTypes,
    SchemaMigrator,
    migrator_of,
    plan_findings,
    repeat_problems,
    rows_of,
    with_order,
)
from connectors.sql.server import C, P, Server, T
from connectors.sql.statements import LET_GO_S, translate_errors
from connectors.sql.table_settings import TableSettings, is_same_name
from connectors.sql.two_phase.committing import CONNECTIONS
from eos.errors import TargetError
from twophase.ids import TransactionId
from twophase.participants import Committer
from twophase.values import Committable

_log: Final = logging.getLogger("eos.sink")
_LONGEST_S: Final = 2_000_000  # PostgreSQL counts milliseconds in 31 bits


@dataclass(frozen=True)
class ServerSink(Server[C, T, P]):
    """A table of a database server. Picklable; opens nothing by itself.

    Args:
        name: in the spec.
        url: as the database's own sink says. A secret: never shown.
        table: its name, which may begin with another schema of the same server.
        log: where rows wait, for `commit: write-ahead-log`; None for `commit: two-phase`.
        upsert: how rows are merged, for `commit: upsert`, which has a log, too; None: rows are added.
        renamed: by column of the table, the column of the rows that it takes; any other keeps its name.
        create: at a start, the table where there is none.
        evolve: at a start, by columns of the rows that the table lacks.
        widen: at a start, columns of the table that do not hold all values of the rows' types.
        declared: types of columns that a start creates.
        repeats: rows may come twice (at-least-once), and no unique key of the table must refuse them.
        timeout_s: how long a checkpoint may take, and a task wait for its next rows.
        connections: over which the driver commits a checkpoint, with `commit: two-phase`.
        letters: with a log, the sink of the dead letters, in the same database: it takes rows that the table refuses.
        most_letters: rows of one slot's share that may be refused.
    """

    name: str
    url: str = field(repr=False)
    table: str
    log: LogPlace | None = None
    upsert: Upsert | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    create: bool = False
    evolve: bool = False
    widen: bool = False
    declared: DeclaredTypes = field(default_factory=DeclaredTypes)
    repeats: bool = False
    timeout_s: float = LET_GO_S
    connections: int = CONNECTIONS
    letters: ServerSink[C, T, P] | None = field(default=None, repr=False)
    most_letters: int = 0
    plans: tuple[P, ...] = field(default=(), repr=False)  # of an opened sink, as the two that follow
    partitioning: Partitioning = field(default=Partitioning(), repr=False)
    target: str = field(default="", repr=False)  # quoted
    ran: tuple[str, ...] = field(default=(), repr=False)  # statements by which `open` has created or changed the table
    learned: T | None = field(default=None, repr=False)  # the table as the server had it

    learns_at_once: ClassVar[int] = LEARNS_AT_ONCE
    _table_type: ClassVar[type]
    """Of `learned`."""

    def open(self, schema: pa.Schema) -> Self:
        """See Sink. One connection, a few queries, and what the spec wants made. Raises TargetError,
        SinkUnavailableError."""
        opened = self._compared(schema, run=True)
        if opened.log is None and opened.partitioning.one_writer:
            remedy = self._remedy_for_one_writer
            _log.warning("sink %s, table %s: %s; %s", self.name, self.table, opened.partitioning, remedy)
        return opened

    @property
    def cached_target(self) -> str | None:
        """See Sink. Only a sink with a log can be written to while its server is away."""
        if self.log is None or self.repeats or self.learned is None:
            return None
        return encode_known(self._place, self._table_type, self.learned)

    def open_cached(self, schema: pa.Schema, known: str) -> Self:
        """See Sink. The rows are compared with the table as it was."""
        target: T = decode_known(self.name, self._place, self._table_type, known)
        fit = self._fit(target, rows_of(self, schema))
        if fit.problems:
            raise must_wait(self.name, f"the rows do not fit table {target}: " + "; ".join(fit.problems))
        return self._opened(schema, target, fit)

    def dry_run(self, schema: pa.Schema) -> Sequence[str]:
        names, _, _ = self._seen(schema, run=False)
        return with_order(self.upsert and self.upsert.of(schema), names)

    @property
    def columns(self) -> Sequence[str]:
        return with_order(self.upsert, [plan.name for plan in self.plans])

    @property
    def partition_by(self) -> Sequence[str] | None:
        """See Sink. A log locks no key before its decision; but of one key the newest row can only be found in one
        place."""
        if self.upsert is not None and self.upsert.order_by is not None:
            return self.upsert.key  # the database compares: two tasks may have rows that only it takes for one key's
        return self.partitioning.columns if self.log is None or self.upsert is not None else None

    @property
    def rejects_duplicates(self) -> bool:
        """See Sink. Rows that are added, and never merged, under an index that tells them apart as Spark does."""
        return self.log is None and bool(self.partitioning.columns)

    def writer(self, transaction: TransactionId, replaces: Committable | None = None) -> Writer:
        """See Sink. It connects at its first row, so that a task without rows costs nothing."""
        if self.log is not None:
            return log_writer(self.log, self._form(self.plans), self.upsert, transaction, replaces)
        return self._two_phase_writer(transaction).in_place_of(replaces)

    @property
    def identity(self) -> str:
        """See TableSink. The name as the server has it, with its schema."""
        return self.target

    def row_writer(self, output: Output) -> RowWriter:
        """Return a writer of rows to an output. See TableSink."""
        return row_writer(self._form(self.plans), self.upsert, output)

    def of_table(self, table: str, key: tuple[str, ...], settings: TableSettings) -> Self:
        """Return the sink of another table of the server. See TableSink."""
        return replace(self, **settings.over(self.name, table, key, self.upsert, self.renamed, self.declared))

    def committer(self, pipeline: str) -> Committer:
        if self.log is not None:
            target = LogTarget(
                self.name,
                self.table,
                self._where,
                self._store,
                self.log.slots,
                letters=self.letters.letters_table if self.letters is not None else None,
                most_letters=self.most_letters,
            )
            return LogCommitter(self.name, SqlLedger(target, pipeline), self.log.open())
        return self._two_phase_committer(pipeline)

    def letters_table(self) -> DeadLettersTable:
        """Open this sink of dead letters, whose table exists. Changes nothing.

        Raises TargetError, SinkUnavailableError.
        """
        opened = replace(self, create=False, evolve=False, widen=False)._compared(SCHEMA)
        return DeadLettersTable(opened.table, opened._form(opened.plans), opened.columns)

    def check(self, schema: pa.Schema | None, writers: int | None = None) -> Sequence[Finding]:
        compare = None if schema is None else lambda: self._compared(schema).partitioning
        of_log = [] if self.log is None else self.log.check(f"{self.name}: ")
        connections = writers if self.log is None or self.repeats else self.log.slots
        return [*of_log, *self._doctor(compare, partial(self._ahead, schema), connections)]

    def require_server(self) -> None:
        with translate_errors(self._place_of_errors), self._session() as session:
            checks.require(self._place_of_errors, self._requirements(session))

    def is_reserved(self, table: str) -> bool:
        return self.letters is not None and is_same_name(table, self.letters.table)

    def check_server(self, writers: int | None) -> Sequence[Finding]:
        """Return the findings without a table. See TableSink."""
        return replace(self, table="").check(None, writers)

    @property
    def _place_of_errors(self) -> str:
        return f"sink {self.name} at {self._where}"

    @property
    def _prepares(self) -> bool:
        """Whether tasks prepare transactions, and neither write a log nor commit themselves."""
        return self.log is None and not self.repeats

    @property
    def _let_go_s(self) -> int:
        """Of a task's connection, which does nothing while a step takes its time."""
        return max(LET_GO_S, min(math.ceil(self.timeout_s), _LONGEST_S))

    def _seen(
        self, schema: pa.Schema, *, run: bool
    ) -> tuple[list[str], tuple[T, SchemaMatch[P]] | None, tuple[str, ...]]:
        """The columns that are written, the table that takes them, and the statements that have changed it.

        None instead of a table: a start is to make it.
        `run`: make what is missing, where the spec says so; else take it for made.
        """
        with translate_errors(f"{self._place_of_errors}, table {self.table}"), self._session() as session:
            if run:
                checks.require(self._place_of_errors, self._requirements(session))
            maker = self._maker(session, schema)
            seen, ran = maker.make(session) if run else (maker.dry_run(), ())
            if seen is None and (run or not self.create):
                raise self._missing(session, maker.remedy())
            names = maker.columns(seen)
        if seen is not None and seen[1].problems:
            target, fit = seen
            message = f"sink {self.name}: table {target} at {self._where} does not take the rows:\n  - "
            has = ", ".join(f"{column.name} {column.declared}" for column in target.columns)
            remedy = f"change the table or the transforms; the table has {has}"
            raise TargetError(message + "\n  - ".join(fit.problems), remedy=remedy)
        return names, seen, ran

    def _compared(self, schema: pa.Schema, *, run: bool = False) -> Self:
        """The sink as it is opened, of a table that exists or that `run` lets it make."""
        _, seen, ran = self._seen(schema, run=run)
        assert seen is not None
        target, fit = seen
        if self.upsert is not None:
            self._rehearse(fit.plans, self.upsert.of(schema))
        return replace(self._opened(schema, target, fit), ran=ran)

    def _opened(self, schema: pa.Schema, target: T, fit: SchemaMatch[P]) -> Self:
        kinds = {plan.column: (plan.name, schema.field(plan.name).type) for plan in fit.plans}
        log, upsert = self.log and self.log.on_driver(), self.upsert and self.upsert.of(schema)
        spread = self._spread(target, kinds)
        opened = replace(self, log=log, upsert=upsert, plans=fit.plans, partitioning=spread, target=target.quoted)
        return replace(opened, learned=target)

    @property
    def _place(self) -> str:
        return f"{self._where}, table {self.table}"

    def _maker(self, session: C, schema: pa.Schema) -> SchemaMigrator[T, P]:
        widener = self._widener(session) if self.widen else None
        return migrator_of(self, schema, self._types(session), partial(self._find, session), self._fit, widener)

    def _ahead(self, schema: pa.Schema | None, session: C) -> Iterator[Finding]:
        """What a run would make."""
        maker = None if schema is None else partial(self._maker, session, schema)
        return plan_findings(self, "target", partial(self._find, session), maker)

    def _fit(self, target: T, rows: tuple[RowColumn, ...]) -> SchemaMatch[P]:
        fit = self._planned(rows, target)
        given = {row.name: row.type for row in rows}
        kinds = {plan.column: (plan.name, given[plan.name]) for plan in fit.plans}
        wrong = [*self._unfit(target), *fit.wrong]
        if self.repeats:
            wrong += repeat_problems(self._repeating(target, kinds))
        if self.upsert is not None:
            wrong += self._unmergeable(target, self.upsert.merge(fit.columns_of), kinds)
        return replace(fit, wrong=tuple(wrong))

    def _rehearse(self, plans: tuple[P, ...], upsert: Upsert) -> None:
        """What the user may not do would be found only when rows are decided."""
        form = self._form(plans)
        doing = f"sink {self.name} at {self._where}, merging no row into table {self.table}"
        with translate_errors(doing), closing(self._store()) as store:
            schema = segment_schema(form, upsert)
            store.rehearse(self.table, upsert.merge(form.stored), schema, deletes=upsert.deletes)
