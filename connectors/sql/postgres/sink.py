"""The PostgreSQL sink: what it says for itself. Everything else is in connectors.sql.server_sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.log.merge import Merge
from connectors.sql.log.merging import check_key, tombstone_problems
from connectors.sql.partitioning import Partitioning
from connectors.sql.postgres import doctor, requirements
from connectors.sql.postgres.address import masked
from connectors.sql.postgres.encode import Stored
from connectors.sql.postgres.engine import Session
from connectors.sql.postgres.fit import ColumnPlan, plan_columns
from connectors.sql.postgres.partitioning import EXACT_TYPES, is_exact, partition_columns, repeating_keys
from connectors.sql.postgres.server import postgres_committer
from connectors.sql.postgres.store import PostgresStore
from connectors.sql.postgres.target import Target, find_target, missing
from connectors.sql.postgres.types import TYPES
from connectors.sql.postgres.widening import PostgresWidener
from connectors.sql.postgres.writer import PostgresDirectWriter, PostgresWriter
from connectors.sql.schema_match import RowColumn, SchemaMatch
from connectors.sql.schema_migration import Types
from connectors.sql.server import Kinds
from connectors.sql.server_sink import ServerSink
from eos.errors import TargetError
from twophase.ids import TransactionId
from twophase.participants import Committer


@dataclass(frozen=True)
class PostgresSink(ServerSink[Session, Target, ColumnPlan]):
    """See ServerSink. The URL: `postgresql+psycopg://user:password@host:port/database`, with libpq's options."""

    _table_type: ClassVar = Target
    _remedy_for_one_writer: ClassVar = "this is correct, and slower; its unique indexes need one column in common"

    def direct_writer(self, transaction: TransactionId) -> PostgresDirectWriter:
        return PostgresDirectWriter(self.name, self.url, self.target, self.plans, transaction, self._let_go_s)

    @property
    def _where(self) -> str:
        return masked(self.url)

    def _session(self) -> Session:
        return Session(self.url)

    def _requirements(self, session: Session) -> Iterator[Finding]:
        yield from requirements.requirements(session, self.url, prepares=self._prepares)
        if (target := find_target(session, self.table)) is not None:
            yield requirements.insert_allowed(session, target)

    def _store(self) -> PostgresStore:
        return PostgresStore(self.url)

    def _types(self, session: Session) -> Types:
        del session
        return TYPES

    def _widener(self, session: Session) -> PostgresWidener:
        return PostgresWidener(session)

    def _find(self, session: Session) -> Target | None:
        return find_target(session, self.table)

    def _missing(self, session: Session, remedy: str) -> TargetError:
        return missing(session, self.table, remedy)

    def _planned(self, rows: tuple[RowColumn, ...], target: Target) -> SchemaMatch[ColumnPlan]:
        return plan_columns(rows, target)

    def _unfit(self, target: Target) -> Sequence[str]:
        if target.persistence == "p":
            return []
        return ["it is unlogged or temporary: a crash of the server would empty it"]

    def _repeating(self, target: Target, kinds: Kinds) -> Sequence[str]:
        return [index.name for index in repeating_keys(target, kinds)]

    def _unmergeable(self, target: Target, merge: Merge, kinds: Kinds) -> Sequence[str]:
        unique = {index.name: index.columns if index.exact and index.arbiter else (None,) for index in target.unique}
        exact = {
            column.name
            for column in target.columns
            # In the log all UUIDs are written alike; only Spark may see two in one.
            if column.type == "uuid" or is_exact(column, kinds.get(column.name, ("", pa.null()))[1])
        }
        required = {column.name for column in target.columns if column.required}
        return check_key(merge.key, unique, exact, EXACT_TYPES) + tombstone_problems(merge, required)

    def _spread(self, target: Target, kinds: Kinds) -> Partitioning:
        return Partitioning(partition_columns(target, kinds), "its unique indexes have no exact column in common")

    def _form(self, plans: tuple[ColumnPlan, ...]) -> Stored:
        return Stored(plans)

    def _two_phase_writer(self, transaction: TransactionId) -> PostgresWriter:
        return PostgresWriter(self.name, self.url, self.target, self.plans, transaction, self._let_go_s)

    def _two_phase_committer(self, pipeline: str) -> Committer:
        return postgres_committer(self.name, self.url, pipeline, self.connections)

    def _doctor(
        self,
        compare: Callable[[], Partitioning] | None,
        ahead: Callable[[Session], Iterator[Finding]],
        connections: int | None,
    ) -> Sequence[Finding]:
        kind = {"two_phase": self.log is None, "prepares": self._prepares, "merged": self.upsert is not None}
        return doctor.check(self.name, self.url, self.table, compare, ahead, connections, **kind)
