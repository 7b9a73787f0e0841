"""The MySQL and MariaDB sink: what they say for themselves. Everything else is in connectors.sql.server_sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from connectors.api.contracts import Finding
from connectors.log.merge import Merge
from connectors.sql.mysql import doctor, requirements
from connectors.sql.mysql.address import masked
from connectors.sql.mysql.encode import Stored
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.fit import ColumnPlan, plan_columns
from connectors.sql.mysql.partitioning import REMEDY, partitioning, repeating_keys
from connectors.sql.mysql.server import mysql_committer
from connectors.sql.mysql.store import MySqlStore, merge_problems
from connectors.sql.mysql.target import Target, find_target, missing
from connectors.sql.mysql.types import types_of
from connectors.sql.mysql.widening import MySqlWidener
from connectors.sql.mysql.writer import MySqlDirectWriter, MySqlWriter
from connectors.sql.partitioning import Partitioning
from connectors.sql.schema_match import RowColumn, SchemaMatch
from connectors.sql.schema_migration import Types
from connectors.sql.server import Kinds
from connectors.sql.server_sink import ServerSink
from eos.errors import TargetError
from twophase.ids import TransactionId
from twophase.participants import Committer


@dataclass(frozen=True)
class MySqlSink(ServerSink[Session, Target, ColumnPlan]):
    """See ServerSink. The URL: `mysql+pymysql://user:password@host:port/database`, with `ssl_*` options for TLS."""

    _table_type: ClassVar = Target
    _remedy_for_one_writer: ClassVar = REMEDY

    def direct_writer(self, transaction: TransactionId) -> MySqlDirectWriter:
        return MySqlDirectWriter(self.name, self.url, self.target, self.plans, transaction, self._let_go_s)

    @property
    def _where(self) -> str:
        return masked(self.url)

    def _session(self) -> Session:
        return Session(self.url)

    def _requirements(self, session: Session) -> Iterator[Finding]:
        return requirements.requirements(session, prepares=self._prepares)

    def _store(self) -> MySqlStore:
        return MySqlStore(self.url)

    def _types(self, session: Session) -> Types:
        return types_of(session.dialect)

    def _widener(self, session: Session) -> MySqlWidener:
        return MySqlWidener(session)

    def _find(self, session: Session) -> Target | None:
        return find_target(session, self.table)

    def _missing(self, session: Session, remedy: str) -> TargetError:
        return missing(session, self.table, remedy)

    def _planned(self, rows: tuple[RowColumn, ...], target: Target) -> SchemaMatch[ColumnPlan]:
        return plan_columns(rows, target)

    def _unfit(self, target: Target) -> Sequence[str]:
        if target.engine.lower() == "innodb":
            return []
        return [f"its engine is {target.engine}, which cannot roll back; only InnoDB can be a target"]

    def _repeating(self, target: Target, kinds: Kinds) -> Sequence[str]:
        return list(repeating_keys(target, kinds))

    def _unmergeable(self, target: Target, merge: Merge, kinds: Kinds) -> Sequence[str]:
        return merge_problems(target, merge, {column: kind for column, (_, kind) in kinds.items()})

    def _spread(self, target: Target, kinds: Kinds) -> Partitioning:
        return partitioning(target, kinds)

    def _form(self, plans: tuple[ColumnPlan, ...]) -> Stored:
        return Stored(plans)

    def _two_phase_writer(self, transaction: TransactionId) -> MySqlWriter:
        return MySqlWriter(self.name, self.url, self.target, self.plans, transaction, self._let_go_s)

    def _two_phase_committer(self, pipeline: str) -> Committer:
        return mysql_committer(self.name, self.url, pipeline, self.connections)

    def _doctor(
        self,
        compare: Callable[[], Partitioning] | None,
        ahead: Callable[[Session], Iterator[Finding]],
        connections: int | None,
    ) -> Sequence[Finding]:
        kind = {"two_phase": self.log is None, "prepares": self._prepares, "merged": self.upsert is not None}
        return doctor.check(self.name, self.url, self.table, compare, ahead, connections, **kind)
