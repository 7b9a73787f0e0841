"""Where a sink has several tables: their names, and the settings of one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from connectors.api.contracts import EVENT_METADATA, METADATA
from connectors.log.keyed import Upsert
from connectors.sql.schema_migration import DeclaredTypes
from eos.errors import TargetError

_PLACEHOLDER: Final = re.compile(r"\$\{([^{}]*)\}")
_COLUMN: Final = "column."


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rule that gives names another form."""

    match: str  # a regular expression for whole names
    to: str | None  # with `\\1` for groups; None: the rows have no table


@dataclass(frozen=True, slots=True)
class Route:
    """Names the table of rows."""

    pattern: str  # with `${topic}`, `${schema}` and `${column.<name>}`
    rewrite: Sequence[Rewrite] = ()

    @property
    def columns(self) -> Sequence[str]:
        """The columns of the rows that the pattern has."""
        return [name.removeprefix(_COLUMN) for name in _PLACEHOLDER.findall(self.pattern) if name.startswith(_COLUMN)]

    def table(self, topic: str, schema: str, values: Mapping[str, str]) -> str | None:
        """Return the table; None if the rows have none. The first rule that matches is applied.

        `values`: by column. Raises TargetError for a dot that is only in the names: records would choose a schema or a
        database.
        """
        named = {"topic": topic, "schema": schema} | {_COLUMN + name: value for name, value in values.items()}
        table = _PLACEHOLDER.sub(lambda found: named[found[1]], self.pattern)
        written = _PLACEHOLDER.sub("", self.pattern)  # in the spec
        for rule in self.rewrite:
            if found := re.fullmatch(rule.match, table, re.DOTALL):  # a value may have several lines
                if rule.to is None:
                    return None
                table, written = found.expand(rule.to), rule.to
                break
        if table.count(".") > written.count("."):
            message = f"records of topic {topic} have the table {table}, with a dot that the spec does not have"
            raise TargetError(message, remedy=r"write the dot by `rewrite`: {match: 'a[.](\w+)', to: 'a.\1'}")
        return table


def is_same_name(table: str, other: str) -> bool:
    """Return whether two names may mean one table: without a schema or a database, and without regard to case."""
    return table.rpartition(".")[2].lower() == other.rpartition(".")[2].lower()


@dataclass(frozen=True, slots=True)
class TableSettings:
    """The settings of one table, in place of the settings of all tables."""

    key: tuple[str, ...] = ()  # empty: the key of the sink, else the key of the records
    selected: tuple[str, ...] = ()  # columns of the rows; empty: all
    renamed: Mapping[str, str] = field(default_factory=dict)  # by column of the table, the column of the rows
    types: Mapping[str, str] = field(default_factory=dict)  # of columns that a start creates

    def select(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of rows that the table takes, and what the pipeline adds to each row.

        Raises TargetError for a selected column that the rows lack.
        """
        if missing := [name for name in self.selected if name not in schema.names]:
            message = f"`select` names the column {missing[0]}, which the rows do not have"
            raise TargetError(message, remedy=f"the rows have {', '.join(schema.names)}")
        kept = METADATA.union(EVENT_METADATA, self.selected)
        return pa.schema([field for field in schema if not self.selected or field.name in kept])

    def over(
        self,
        sink: str,
        table: str,
        of_records: tuple[str, ...],
        upsert: Upsert | None,
        renamed: Mapping[str, str],
        declared: DeclaredTypes,
    ) -> dict[str, Any]:
        """Return the arguments of the table's sink. `of_records`: the key of the records.

        Raises TargetError for rows that are merged and have no key.
        """
        key = self.key or (() if upsert is None else upsert.key) or of_records
        if upsert is not None and not key:
            message = f"sink {sink}: rows of table {table} are merged, and the keys of their records name no column"
            raise TargetError(message, remedy=f"name the columns: tables: {{{table}: {{key: [column, …]}}}}")
        return {
            "table": table,
            "upsert": None if upsert is None else replace(upsert, key=key),
            "renamed": self.renamed or renamed,
            "declared": replace(declared, types=self.types) if self.types else declared,
        }
