"""What the entries of tables have in common, whatever database they are in. Imports no driver."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, Field, model_validator

from connectors.api.database import LEARNS_AT_ONCE, Database, DatabaseUse
from connectors.api.entry import PLACEHOLDER, TWO_PHASE, DeadLetterEntry, SinkEntry
from connectors.api.fields import SLOTS, AtLeastOne, NonEmpty, Slots, Title, database_url, matching, regular_expression
from connectors.api.guarantee import EXACTLY_ONCE, Guarantee, PipelineContext, at_least_once, with_each_checkpoint
from connectors.api.guarantee import log_needs as needs_of_log
from connectors.api.login import extras_of
from connectors.api.masking import Url
from connectors.api.model import Strict, wrong
from connectors.api.tls import NO_FILES, Protection
from connectors.log.keyed import Upsert
from connectors.log.place import LogPlace

if TYPE_CHECKING:
    from connectors.api.contracts import Sink
    from connectors.dead_letters import DeadLetter

UPSERT: Final = "upsert"
LOG: Final = "write-ahead-log"
_MOST_PREPARED: Final = 99
"""Checkpoints that may wait as prepared transactions."""

_NO_UPSERT: Final = (
    "'upsert' keeps the newest row of a key, which at-least-once cannot: a task that still runs after its checkpoint "
    "was rewritten would put an older row over a newer one. With exactly-once a replay changes nothing"
)
TWO_PHASE_PROMISE: Final = EXACTLY_ONCE.replace("in each sink once", "in the table once")
LOG_PROMISE: Final = "exactly-once: rows wait in a log and are applied in one transaction with their witness"
UPSERT_PROMISE: Final = (
    "exactly-once: of each key the newest row of its partition is in the table; rows wait in a log, merged with "
    "their witness"
)
PROTOCOL_TABLES: Final = "tables of the protocol beside the target: created at the first start, or by an administrator"
TWO_PHASE_LIMITS: Final = (
    "prepared rows keep their locks until the checkpoint is committed, also while the pipeline is down",
    "no DDL on the table while the pipeline runs",
    "a reader may see one task's rows of a checkpoint just before another's",
)
_UPSERT_LIMITS: Final = (
    "records of one key must lie in one partition of one topic, for good, since offsets of two do not compare: two in "
    "one checkpoint stop the pipeline, and of two checkpoints the later one wins, whichever row is newer",
    "partitions that a topic is given move keys: let the pipeline catch up before producers use them, or rows that the "
    "old ones still have win when they come",
    "of several rows of one key in a checkpoint only the newest is ever seen",
)


_REFERENCE: Final = re.compile(r"\$\{([^{}]*)\}?")
_COLUMN: Final = "column."

SqlType = Annotated[
    str, matching(r"[A-Za-z]\w*( \w+)*( ?\(\d+(, ?\d+)?\))?( \w+)*", "a type of SQL, such as VARCHAR(80)")
]


class RewriteRule(Strict):
    """A rule for names of tables."""

    match: Annotated[NonEmpty, AfterValidator(regular_expression)]
    """A regular expression for whole names."""
    to: str | None
    """The new name, with `\\1` for a group; null: rows have no table."""

    @model_validator(mode="after")
    def _groups_are_there(self) -> Self:
        try:
            re.sub(self.match, self.to or "", "")
        except re.error as error:
            raise wrong(
                f"'{self.to}' does not fit '{self.match}': {error}", r"\1 for the first group", at="to"
            ) from None
        return self


class TableOverride(Strict):
    """Settings of one of several tables."""

    key: Annotated[list[NonEmpty], Field(min_length=1)] | None = None
    """With `commit: upsert`: the columns of the key, if the records' keys do not name them."""
    select: Annotated[list[NonEmpty], Field(min_length=1)] = Field(default_factory=list)
    """The columns of the rows that the table takes; without it, all."""
    columns: Annotated[dict[NonEmpty, NonEmpty], Field(min_length=1)] = Field(default_factory=dict)
    """As `columns` of a sink."""
    types: Annotated[dict[NonEmpty, SqlType], Field(min_length=1)] = Field(default_factory=dict)
    """As `types` of a sink."""


class TableEntry(SinkEntry):
    """A table, and what merging into it takes."""

    exactly_once_only: ClassVar[Mapping[str, str]] = {UPSERT: _NO_UPSERT}
    kind_of_table: ClassVar[str] = "a table"
    """For the needs of a guarantee."""
    log_visible: ClassVar[str] = "one slot's rows shortly after another's"
    """In which parts `commit: write-ahead-log` makes a checkpoint visible."""
    log_limits: ClassVar[tuple[str, ...]] = (
        "a reader may see one slot's rows of a checkpoint just before another's; with `slots: 1` all at once",
    )
    upsert_needs: ClassVar[tuple[str, ...]] = ()

    table: Title
    """The target. `database.table` (MySQL) or `schema.table` (PostgreSQL) for one in another place. With `${topic}`,
    `${schema}`, the name of the records' schema, or `${column.<name>}`, a column of the rows, each of these has its
    table."""
    rewrite: Annotated[list[RewriteRule], Field(min_length=1)] = Field(default_factory=list)
    """With several tables: rules for their names. The first rule that matches a whole name is applied."""
    tables: Annotated[dict[Title, TableOverride], Field(min_length=1)] = Field(default_factory=dict)
    """With several tables: by table, settings that differ from the others."""
    unroutable: Literal["fail", "dead-letter"] = "fail"
    """With several tables: rows without a table, or that do not fit theirs, stop the pipeline, or become dead
    letters."""
    create: Literal["never", "if-missing"] = "never"
    """`if-missing`: a start makes the table where there is none. It has a column for each of the rows, of a type that
    holds all values unaltered, and `key` as its primary key."""
    evolve: Literal["none", "add-columns", "add-and-widen"] = "none"
    """`add-columns`: a start adds columns of the rows that the table lacks. What is there already has NULL in them.
    `add-and-widen`: it also gives a column of numbers a wider type of its family, if the column does not hold all
    values of the rows' type. Columns in `types` keep their type."""
    types: Annotated[dict[NonEmpty, SqlType], Field(min_length=1)] = Field(default_factory=dict)
    """Types of columns that a start creates, as the database writes them: `{name: VARCHAR(80)}`, by the name in the
    rows. A value that does not fit is a bad row. Any other column has a type that holds all values unaltered."""
    longest_text: Annotated[AtLeastOne, Field(le=16_383)] | None = None
    """Characters of a text in a column that a start creates and `types` does not name: `VARCHAR(n)`; without it any
    length. SQLite has no such limit."""
    columns: Annotated[dict[NonEmpty, NonEmpty], Field(min_length=1)] = Field(default_factory=dict)
    """Columns that the table calls otherwise than the rows, as `{column of the table: column of the rows}`: read it as
    SQL's `SET id = order_id`. Any other column of the rows keeps its name; none is left out."""
    key: Annotated[list[NonEmpty], Field(min_length=1)] | None = None
    """With `commit: upsert`: columns, as the rows name them, on which the table has a unique index, and in which values
    are equal only if they are the same. Rows of one key come from one partition of one topic, for good; the newest one
    stays."""
    deleted: NonEmpty | None = None
    """With `commit: upsert`: a boolean column, as the rows name it, true where its key is to be deleted; NULL is
    false."""
    deleted_at: NonEmpty | None = None
    """With `commit: upsert`, instead of `deleted`: a timestamp, as the rows name it. Where it has a value, the stored
    row stays, and gets this value in the column of the same name; its other columns keep theirs."""
    order_by: NonEmpty | None = None
    """With `commit: upsert`: a column, as the rows name it, that grows with each change of a row: a version, a position
    in the source's log, a time. A row replaces one whose value is not greater, so rows of a key may be in several
    partitions."""
    on_existing: Literal["replace", "keep"] = "replace"
    """With `commit: upsert`. `keep`: a row whose key the table has is left out, and the oldest row of a key stays."""

    @model_validator(mode="after")
    def _each_column_once(self) -> Self:
        names = list(self.columns.values())
        if twice := [name for name in names if names.count(name) > 1]:
            found = f"'{twice[0]}' of the rows goes to {len(twice)} columns of the table"
            raise wrong(found, "each column of the rows once; select it twice in a transform", at="columns")
        return self

    @model_validator(mode="after")
    def _types_of_new_columns(self) -> Self:
        if self.create == "never" and self.evolve == "none":
            for name in ("types", "longest_text"):
                if getattr(self, name):
                    found = f"'{name}' is for columns that a start creates"
                    raise wrong(found, "create: if-missing", "evolve: add-columns", at=name)
        return self

    @model_validator(mode="after")
    def _key_of_an_upsert(self) -> Self:
        if self.commit == UPSERT and self.key is None and not self.has_several_tables:
            raise wrong("without a key no row can be told from another", "key: [column, …]", at="commit")
        for name in ("key", "deleted", "deleted_at", "order_by"):
            if self.commit != UPSERT and getattr(self, name) is not None:
                raise wrong(f"'{name}' is for rows that are merged", "commit: upsert", at=name)
        if self.commit != UPSERT and self.on_existing != "replace":
            raise wrong("'on_existing' is for rows that are merged", "commit: upsert", at="on_existing")
        return self

    @model_validator(mode="after")
    def _one_way_to_merge(self) -> Self:
        if self.deleted is not None and self.deleted_at is not None:
            raise wrong("'deleted' deletes a row, and 'deleted_at' keeps it", "one of the two", at="deleted_at")
        if self.deleted is not None and self.order_by is not None:
            found = "a row that is deleted takes its order with it: an older row that arrives later would be put back"
            raise wrong(found, "deleted_at: <column>, which keeps the row", at="deleted")
        for name in ("deleted", "deleted_at", "order_by"):
            if self.on_existing == "keep" and getattr(self, name) is not None:
                raise wrong(f"with 'on_existing: keep' no row changes, and '{name}' changes rows", at=name)
        return self

    @model_validator(mode="after")
    def _several_tables(self) -> Self:
        if self.has_several_tables:
            placeholders = _REFERENCE.findall(self.table)
            if unknown := [name for name in placeholders if not PLACEHOLDER.fullmatch(name)]:
                raise wrong(f"'${{{unknown[0]}}}' is unknown", "${topic}", "${schema}", "${column.<name>}", at="table")
            if self.commit == TWO_PHASE:
                raise wrong(
                    "several tables take their rows from a log", f"commit: {UPSERT}", f"commit: {LOG}", at="commit"
                )
            return self
        for name in ("rewrite", "tables", "unroutable"):
            if name in self.model_fields_set:
                raise wrong(f"'{name}' is for several tables", 'table: "${topic}"', at=name)
        return self

    @property
    def has_several_tables(self) -> bool:
        return "${" in self.table

    @property
    def needs_whole_splits(self) -> bool:
        """See SinkEntry. Rows of several tables are not distributed by their keys, as rows of one table are."""
        return self.has_several_tables and self.commit == UPSERT and self.order_by is None

    @property
    def unroutable_to_letters(self) -> bool:
        return self.unroutable == "dead-letter"

    @property
    def database(self) -> object:
        """A value that is equal for two sinks that one connection can write to. May contain the password."""
        raise NotImplementedError

    @property
    def row_columns(self) -> list[tuple[tuple[str | int, ...], str]]:
        if self.has_several_tables:
            placeholders = _REFERENCE.findall(self.table)
            return [(("table",), each.removeprefix(_COLUMN)) for each in placeholders if each.startswith(_COLUMN)]
        named: list[tuple[tuple[str | int, ...], str]] = [(("columns", at), name) for at, name in self.columns.items()]
        named += [(("key", at), name) for at, name in enumerate(self.key or ())]
        named += [(("types", name), name) for name in self.types]
        merging = (("deleted", self.deleted), ("deleted_at", self.deleted_at), ("order_by", self.order_by))
        return named + [((name,), column) for name, column in merging if column is not None]

    @property
    def description(self) -> dict[str, str]:
        return {"connector": self.connector, "table": self.table}

    def accepts_rejected_rows(self, sink: SinkEntry) -> bool:
        """Where both tables are in one database."""
        if not isinstance(sink, TableEntry) or not sink.is_logged:
            return False
        return (sink.connector, sink.database) == (self.connector, self.database)

    def build(self, context: PipelineContext, dead_letters: Sink | None = None) -> Sink:
        arguments = self.arguments(context)
        if dead_letters is not None:
            arguments |= {"letters": dead_letters, "most_letters": context.max_dead_letters}
        one = self._sink(arguments)
        return self._of_tables(one) if self.has_several_tables else one

    def _of_tables(self, one: Any) -> Sink:
        from connectors.sql.multi_table import SqlTablesSink  # loads pyarrow
        from connectors.sql.table_settings import Rewrite, Route, TableSettings

        settings = {
            table: TableSettings(tuple(each.key or ()), tuple(each.select), dict(each.columns), dict(each.types))
            for table, each in self.tables.items()
        }
        route = Route(self.table, tuple(Rewrite(rule.match, rule.to) for rule in self.rewrite))
        return SqlTablesSink(one, route, settings, self.unroutable_to_letters)

    def _sink(self, arguments: dict[str, Any]) -> Sink:
        raise NotImplementedError

    def fingerprint(self, context: PipelineContext) -> list[tuple[str, str]]:
        return sorted((name, str(value)) for name, value in self.arguments(context).items())

    def arguments(self, context: PipelineContext) -> dict[str, Any]:
        """Return the arguments of the sink. They contain the credentials of an object store."""
        from connectors.sql.schema_migration import DeclaredTypes  # loads pyarrow

        upsert = None
        if self.commit == UPSERT:
            keep = self.on_existing == "keep"
            upsert = Upsert(
                key=tuple(self.key or ()),
                deleted=self.deleted,
                by_topic=context.several_topics,
                deleted_at=self.deleted_at,
                order_by=self.order_by,
                keep=keep,
                by_row=None if context.several_topics is None else context.several_rows,  # None: a user's job
            )
        return {
            "name": self.name,
            "table": self.table,
            "upsert": upsert,
            "renamed": dict(self.columns),
            "create": self.create == "if-missing",
            "evolve": self.evolve != "none",
            "widen": self.evolve == "add-and-widen",
            "declared": DeclaredTypes(dict(self.types), self.longest_text),
            "repeats": context.at_least_once,
        }

    def guarantee(self, context: PipelineContext) -> Guarantee:
        if context.at_least_once:
            unique = "no unique key that a row could meet again"
            needs = [need for need in self._commit_needs(context) if need != needs_of_log(context)]
            return at_least_once(context, self.name, [*self._table_needs(), unique, *needs])
        visible, limits = {
            TWO_PHASE: ("one task's share shortly after another's", TWO_PHASE_LIMITS + self._two_phase_limits()),
            LOG: (self.log_visible, self.log_limits),
            UPSERT: ("one task's rows after another's", self._upsert_limits()),
        }[self.commit]
        promise = self.promises[self.commit] if self.commit != UPSERT else self._upsert_promise()
        return Guarantee(
            self.name,
            promise,
            with_each_checkpoint(context, visible),
            (*self._table_needs(), *self._commit_needs(context)),
            limits,
        )

    def _table_needs(self) -> list[str]:
        """Return the requirements of the table, or of the user who creates it."""
        exists = "that exists, " if self.create == "never" else ""
        lines = [f"{self.kind_of_table} {exists}with columns that fit the rows"]
        if self.create == "if-missing":
            lines.append("the right to create the table, where there is none: `eos doctor` shows the statement")
        if self.evolve != "none":
            narrow = ", or has too narrow ones" * (self.evolve == "add-and-widen")
            lines.append(
                f"the right to alter the table, where it lacks columns{narrow}: `eos doctor` shows the statements"
            )
        return lines

    def _commit_needs(self, context: PipelineContext) -> tuple[str, ...]:
        if self.commit == TWO_PHASE:
            return self._two_phase_needs()
        if self.commit == LOG:
            return (needs_of_log(context),)
        names = ["`_offset`", "`_partition`"]
        names += ["`_topic`"] if context.several_topics else []
        names += ["`_row`"] if context.several_rows else []
        place = f"{', '.join(names[:-1])} and {names[-1]}"
        return (
            needs_of_log(context),
            f"a unique index on the key's columns and no other, and {place} of the source among the rows",
            "key columns whose values are equal for the database only if they are the same: text is compared by bytes",
            *self.upsert_needs,
        )

    def _upsert_promise(self) -> str:
        if self.on_existing == "keep":
            return UPSERT_PROMISE.replace("of each key the newest row of its partition", "of each key the first row")
        if self.order_by is not None:
            greatest = f"of each key the row with the greatest {self.order_by}"
            return UPSERT_PROMISE.replace("of each key the newest row of its partition", greatest)
        return UPSERT_PROMISE

    def _upsert_limits(self) -> tuple[str, ...]:
        limits: tuple[str, ...] = _UPSERT_LIMITS if self.order_by is None else _UPSERT_LIMITS[2:]
        if self.on_existing == "keep":
            limits = _UPSERT_LIMITS[:1]
        if self.has_several_tables:  # tasks read whole partitions, and their rows are not compared
            return tuple(limit.replace("two in one checkpoint stop", "two in one task stop") for limit in limits)
        return limits

    def _two_phase_needs(self) -> tuple[str, ...]:
        raise NotImplementedError

    def _two_phase_limits(self) -> tuple[str, ...]:
        return ()


class ServerEntry(TableEntry):
    """A table of a database server."""

    promises: ClassVar[Mapping[str, str]] = {TWO_PHASE: TWO_PHASE_PROMISE, LOG: LOG_PROMISE, UPSERT: UPSERT_PROMISE}
    kind: ClassVar[type[Database]]
    """The kind of database: its port, and its TLS."""
    file_options: ClassVar[tuple[str, ...]]
    """Options of the URL that name files."""
    dataset_scheme: ClassVar[str]
    """Scheme of the namespace by OpenLineage's rules for names."""

    url: Annotated[Url, database_url("scheme://user:password@host/database")]  # each server has its own schemes
    commit: Literal["two-phase", "write-ahead-log", "upsert"]
    """How rows become visible. `two-phase`: they wait in the database, as prepared transactions, which are committed
    once the checkpoint is decided. `write-ahead-log`: they wait in a log (`checkpoint.log`), and are applied in one
    transaction for each slot; nothing is locked meanwhile, and no right to prepare transactions is needed.
    `upsert`: as `write-ahead-log`, and a row takes the place of the one with its key."""
    slots: Slots | None = None
    """With a log: how many connections apply a checkpoint at once; 2 without it."""

    @model_validator(mode="after")
    def _slots_of_a_log(self) -> Self:
        if self.slots is not None and self.commit == TWO_PHASE:
            raise wrong(
                f"{self.slots} slots: only a log has them", "commit: write-ahead-log", "commit: upsert", at="slots"
            )
        return self

    @model_validator(mode="after")
    def _backlog_with_locks(self) -> Self:
        """Prepared transactions keep their locks, so that few may wait."""
        if self.max_backlog is None or self.commit != TWO_PHASE:
            return self
        if self.max_backlog.max_bytes is not None:
            raise wrong(
                "'bytes' counts what waits in a log", "checkpoints: N", "commit: write-ahead-log", at="max_backlog"
            )
        if self.max_backlog.checkpoints > _MOST_PREPARED:
            found = (
                f"{self.max_backlog.checkpoints} checkpoints: their prepared transactions keep locks in the database"
            )
            raise wrong(found, f"at most {_MOST_PREPARED}", "commit: write-ahead-log", at="max_backlog")
        return self

    @property
    def where(self) -> str:
        return f"{self.url}, table {self.table}"

    @property
    def datasets(self) -> Sequence[tuple[str, str]]:
        host, port, *names = map(str, self.target)
        return ((f"{self.dataset_scheme}://{f'[{host}]' if ':' in host else host}:{port}", ".".join(names)),)

    @property
    def database(self) -> object:
        return self.url.reveal()

    def addresses(self, context: PipelineContext) -> list[tuple[str, int]]:
        parts = urlsplit(self.url.reveal())
        return [(parts.hostname, parts.port or self.kind.port)] if parts.hostname else []

    @property
    def files(self) -> list[Path]:
        options = parse_qsl(urlsplit(self.url.reveal()).query)
        return [Path(value) for name, value in options if name in self.file_options and value not in NO_FILES]

    @property
    def extras(self) -> frozenset[str]:
        return extras_of(self.url.reveal())

    @property
    def protection(self) -> Protection:
        parts = urlsplit(self.url.reveal())
        return self.kind.protection(parts.hostname, dict(parse_qsl(parts.query)))

    def database_use(self, context: PipelineContext) -> DatabaseUse:
        direct = context.at_least_once
        slots = self.slots or SLOTS if self.is_logged and not direct else 0
        learns = LEARNS_AT_ONCE if self.has_several_tables else 0
        prepares = not direct
        commits = context.connections if prepares else 1
        return DatabaseUse(
            f"{self.name}:", self.url.reveal(), slots=slots, learns=learns, prepares=prepares, commits=commits
        )

    def arguments(self, context: PipelineContext) -> dict[str, Any]:
        """They contain the password."""
        log = None if self.commit == TWO_PHASE else LogPlace(context.log_at, self.slots or SLOTS)
        own = {"url": self.url.reveal(), "log": log, "timeout_s": context.timeout_s, "connections": context.connections}
        return {**super().arguments(context), **own}

    def read_dead_letters(self) -> list[DeadLetter]:
        from connectors.sql.dead_letters import read_dead_letters  # loads SQLAlchemy

        return list(read_dead_letters(self.url.reveal(), self.table, self.columns))

    def newest_dead_letters(self, most: int, reached: int) -> list[DeadLetter]:
        from connectors.sql.dead_letters import read_dead_letters  # loads SQLAlchemy

        return read_dead_letters(self.url.reveal(), self.table, self.columns, most, reached)


class TableDeadLetter(DeadLetterEntry):
    """Base of the entries `dead_letter` for a table, to be put before the table's own entry."""

    @model_validator(mode="after")
    def _one_table(self) -> Self:
        if "${" in getattr(self, "table", ""):
            raise wrong("all dead letters are in one table", "the name of the table", at="table")
        return self

    @model_validator(mode="after")
    def _are_not_merged(self) -> Self:
        if getattr(self, "commit", None) == UPSERT:
            raise wrong("dead letters have no key to be merged by", "two-phase", "write-ahead-log", at="commit")
        return self
