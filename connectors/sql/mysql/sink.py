"""The MySQL and MariaDB sink, by two-phase commit or by a log: what a spec names, and what is shipped to the tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import pyarrow as pa

from connectors.contracts import Finding, Writer
from connectors.log.committer import LogCommitter
from connectors.log.keyed import Upsert, key_of, log_writer, segment_schema
from connectors.log.place import LogPlace
from connectors.sql.address import masked
from connectors.sql.fitting import Fit, RowColumn
from connectors.sql.log.ledger import LogTarget, SqlLedger
from connectors.sql.making import Maker
from connectors.sql.mysql import doctor, merging
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.fit import ColumnPlan, plan_columns
from connectors.sql.mysql.partitioning import REMEDY, Partitioning, partitioning, repeating_keys
from connectors.sql.mysql.server import mysql_committer
from connectors.sql.mysql.store import MySqlStore
from connectors.sql.mysql.stored import Stored
from connectors.sql.mysql.target import Target, find_target, missing
from connectors.sql.mysql.types import types_of
from connectors.sql.mysql.writer import MySqlDirectWriter, MySqlWriter
from connectors.sql.statements import translated
from connectors.sql.wanted import ahead, maker_of, refusing_repeats, with_order
from twophase.errors import TargetError
from twophase.ids import TransactionId
from twophase.participants import Committer
from twophase.values import Committable

_log: Final = logging.getLogger("eos.sink")


@dataclass(frozen=True)
class MySqlSink:
    """A table of MySQL or MariaDB. Picklable; opens nothing by itself.

    Args:
        name: in the spec.
        url: `mysql+pymysql://user:password@host:port/database`, with `ssl_*` options for TLS. A secret: never shown.
        log: where rows wait, for `commit: write-ahead-log`; None for `commit: two-phase`.
        upsert: how rows are merged, for `commit: upsert`, which has a log, too; None: rows are added.
        table: its name, which may begin with another database of the same server.
        renamed: by column of the table, the column of the rows that it takes; any other keeps its name.
        create: at a start, the table where there is none.
        evolve: at a start, by columns of the rows that the table lacks.
        repeats: rows may come twice (at-least-once), and no unique key of the table must refuse them.
    """

    name: str
    url: str = field(repr=False)
    table: str
    log: LogPlace | None = None
    upsert: Upsert | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    create: bool = False
    evolve: bool = False
    repeats: bool = False
    plans: tuple[ColumnPlan, ...] = field(default=(), repr=False)  # of an opened sink, as the two that follow
    partitioning: Partitioning = field(default=Partitioning(), repr=False)
    target: str = field(default="", repr=False)  # quoted

    def open(self, schema: pa.Schema) -> MySqlSink:
        """See Sink. One connection, a few queries, and what the spec wants made. Raises TargetError,
        SinkUnavailableError."""
        opened = self._compared(schema, run=True)
        if opened.log is None and opened.partitioning.one_writer:
            _log.warning("sink %s, table %s: %s; %s", self.name, self.table, opened.partitioning, REMEDY)
        return opened

    def foresee(self, schema: pa.Schema) -> Sequence[str]:
        """See Sink."""
        names, _ = self._seen(schema, run=False)
        return with_order(self.upsert, names)

    def _seen(self, schema: pa.Schema, *, run: bool) -> tuple[list[str], tuple[Target, Fit[ColumnPlan]] | None]:
        """The columns that are written, and the table that takes them; None: a start is to make it.

        `run`: make what is missing, where the spec says so; else take it for made.
        """
        with translated(f"sink {self.name} at {masked(self.url)}, table {self.table}"), Session(self.url) as session:
            maker = self._maker(session, schema)
            seen = maker.make(session) if run else maker.foresee()
            if seen is None and (run or not self.create):
                raise missing(session, self.table, maker.remedy())
            names = maker.columns(seen)
        if seen is not None and seen[1].complaints:
            target, fit = seen
            message = f"sink {self.name}: table {target} at {masked(self.url)} does not take the rows:\n  - "
            remedy = f"change the table or the transforms; the table has {_columns(target)}"
            raise TargetError(message + "\n  - ".join(fit.complaints), remedy=remedy)
        return names, seen

    def _compared(self, schema: pa.Schema, *, run: bool = False) -> MySqlSink:
        """The sink as it is opened, of a table that exists or that `run` lets it make."""
        _, seen = self._seen(schema, run=run)
        assert seen is not None
        target, fit = seen
        if self.upsert is not None:
            self._rehearse(fit.plans, self.upsert)
        return replace(
            self,
            log=self.log and self.log.on_driver(),
            plans=fit.plans,
            partitioning=partitioning(
                target, {plan.column: (plan.name, schema.field(plan.name).type) for plan in fit.plans}
            ),
            target=target.quoted,
        )

    def _maker(self, session: Session, schema: pa.Schema) -> Maker[Target, ColumnPlan]:
        return maker_of(self, schema, types_of(session.dialect), partial(find_target, session, self.table), self._fit)

    def _ahead(self, schema: pa.Schema | None, session: Session) -> Iterator[Finding]:
        """What a run would make."""
        maker = None if schema is None else partial(self._maker, session, schema)
        return ahead(self, "target", partial(find_target, session, self.table), maker)

    def _fit(self, target: Target, rows: tuple[RowColumn, ...]) -> Fit[ColumnPlan]:
        fit = plan_columns(rows, target)
        wrong = list(fit.wrong)
        if target.engine.lower() != "innodb":
            wrong.insert(0, f"its engine is {target.engine}, which cannot roll back; only InnoDB can be a target")
        given = {row.name: row.type for row in rows}
        if self.repeats:
            wrong += refusing_repeats(
                repeating_keys(target, {plan.column: (plan.name, given[plan.name]) for plan in fit.plans})
            )
        if self.upsert is not None:
            kinds = {plan.column: given[plan.name] for plan in fit.plans}
            wrong += merging.problems(target, fit.columns_of(self.upsert.key), kinds)
        return replace(fit, wrong=tuple(wrong))

    def _rehearse(self, plans: tuple[ColumnPlan, ...], upsert: Upsert) -> None:
        """What the user may not do would be found only when rows are decided."""
        schema, deletes = segment_schema(Stored(plans), upsert), upsert.deleted is not None
        doing = f"sink {self.name} at {masked(self.url)}, merging no row into table {self.table}"
        with translated(doing), MySqlStore(self.url) as store:
            store.rehearse(self.table, key_of(schema), schema, deletes=deletes)

    @property
    def columns(self) -> Sequence[str]:
        """See Sink."""
        return with_order(self.upsert, [plan.name for plan in self.plans])

    @property
    def partition_by(self) -> Sequence[str] | None:
        """See Sink."""
        return self.partitioning.columns if self.log is None or self.upsert is not None else None

    def writer(self, transaction: TransactionId, instead_of: Committable | None = None) -> Writer:
        """See Sink. The writer connects at its first row, so that a task without rows costs nothing."""
        if self.log is not None:
            return log_writer(self.log, Stored(self.plans), self.upsert, transaction, instead_of)
        return MySqlWriter(self.name, self.url, self.target, self.plans, transaction).in_place_of(instead_of)

    def direct_writer(self, transaction: TransactionId) -> MySqlDirectWriter:
        """See Sink."""
        return MySqlDirectWriter(self.name, self.url, self.target, self.plans, transaction)

    def committer(self, pipeline: str) -> Committer:
        """See Sink."""
        if self.log is not None:
            store = partial(MySqlStore, self.url)
            target = LogTarget(self.name, self.table, masked(self.url), store, self.log.slots)
            return LogCommitter(self.name, SqlLedger(target, pipeline), self.log.open())
        return mysql_committer(self.name, self.url, pipeline)

    def check(self, schema: pa.Schema | None, writers: int | None = None) -> Sequence[Finding]:
        """See Sink."""
        compare = None if schema is None else lambda: self._compared(schema).partitioning
        of_log = [] if self.log is None else self.log.check(f"{self.name}: ")
        connections = writers if self.log is None or self.repeats else self.log.slots
        foresee = partial(self._ahead, schema)
        kind = {"two_phase": self.log is None, "merged": self.upsert is not None}
        return [*of_log, *doctor.check(self.name, self.url, self.table, compare, foresee, connections, **kind)]


def _columns(target: Target) -> str:
    return ", ".join(f"{column.name} {column.declared}" for column in target.columns)
