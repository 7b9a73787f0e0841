"""What a database server says for itself; what is alike for every server stands in connectors.sql.server_sink."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.log.keyed_rows import KeyedForm
from connectors.log.merge import Merge
from connectors.sql.bulk_writer import DirectBulkWriter
from connectors.sql.log.store import Store
from connectors.sql.partitioning import Partitioning
from connectors.sql.schema_match import Plan, RowColumn, SchemaMatch
from connectors.sql.schema_migration import Types
from connectors.sql.statements import Connected
from connectors.sql.two_phase.writer import TwoPhaseWriter
from connectors.sql.widening import Widener
from eos.errors import TargetError
from twophase.ids import TransactionId
from twophase.participants import Committer


class Column(Protocol):
    """Of a table that exists."""

    @property
    def name(self) -> str:
        """Name of the column as declared."""

    @property
    def declared(self) -> str:
        """Its type."""


class ServerTable(Protocol):
    """A table that exists."""

    @property
    def quoted(self) -> str:
        """Its name, for a format string."""

    @property
    def columns(self) -> Sequence[Column]:
        """In their order."""


class MergingStore(Store, Protocol):
    """One that can also say beforehand what the server would refuse."""

    def rehearse(self, table: str, merge: Merge, schema: pa.Schema, *, deletes: bool) -> None:
        """Merge no row at all, in a transaction of its own. `schema`: of the segments. Raises TargetError,
        StatementError."""


Kinds = Mapping[str, tuple[str, pa.DataType]]
"""By column of the table, name and type of what the rows give it."""

C = TypeVar("C", bound=Connected)
T = TypeVar("T", bound=ServerTable)
P = TypeVar("P", bound=Plan)


class Server(ABC, Generic[C, T, P]):
    """A sink's own server, as an opened sink or one that is still to be opened asks it."""

    _remedy_for_one_writer: ClassVar[str]
    """What several writers would take."""

    @property
    @abstractmethod
    def _where(self) -> str:
        """The URL for messages. Raises SpecError for one that cannot be read."""

    @abstractmethod
    def _session(self) -> AbstractContextManager[C]:
        """A new connection. Raises StatementError."""

    @abstractmethod
    def _requirements(self, session: C) -> Iterable[Finding]:
        """What must hold of the server at each start. Raises StatementError."""

    @abstractmethod
    def _store(self) -> MergingStore:
        """A new connection that applies a log. Raises StatementError."""

    @abstractmethod
    def _types(self, session: C) -> Types:
        """How columns are declared there."""

    @abstractmethod
    def _find(self, session: C) -> T | None:
        """The table as it is now; None: there is none."""

    @abstractmethod
    def _widener(self, session: C) -> Widener[T]:
        """How columns get wider types there."""

    @abstractmethod
    def _missing(self, session: C, remedy: str) -> TargetError:
        """That there is no such table."""

    @abstractmethod
    def _planned(self, rows: tuple[RowColumn, ...], target: T) -> SchemaMatch[P]:
        """Rows compared with the table, column by column."""

    @abstractmethod
    def _unfit(self, target: T) -> Sequence[str]:
        """What keeps any rows from being written there."""

    @abstractmethod
    def _repeating(self, target: T, kinds: Kinds) -> Sequence[str]:
        """The unique indexes that could meet one key twice."""

    @abstractmethod
    def _unmergeable(self, target: T, merge: Merge, kinds: Kinds) -> Sequence[str]:
        """What keeps rows from being merged by this key of the table."""

    @abstractmethod
    def _spread(self, target: T, kinds: Kinds) -> Partitioning:
        """How rows must be shared out."""

    @abstractmethod
    def _form(self, plans: tuple[P, ...]) -> KeyedForm:
        """Rows as they wait in a log."""

    @abstractmethod
    def direct_writer(self, transaction: TransactionId) -> DirectBulkWriter[Any]:
        """Return the writer of a task that commits its rows itself."""

    @abstractmethod
    def _two_phase_writer(self, transaction: TransactionId) -> TwoPhaseWriter[Any]:
        """Of an opened sink, in a task."""

    @abstractmethod
    def _two_phase_committer(self, pipeline: str) -> Committer:
        """On the driver."""

    @abstractmethod
    def _doctor(
        self,
        compare: Callable[[], Partitioning] | None,
        ahead: Callable[[C], Iterator[Finding]],
        connections: int | None,
    ) -> Sequence[Finding]:
        """Everything that can be asked of the server."""
