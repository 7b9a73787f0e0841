"""Where a sink has several tables: their names, and the settings of one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from connectors.log.keyed import Upsert
from connectors.sql.schema_migration import DeclaredTypes
from eos.errors import TargetError


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rule that gives names another form."""

    match: str  # a regular expression for whole names
    to: str | None  # with `\\1` for groups; None: the rows have no table


@dataclass(frozen=True, slots=True)
class Route:
    """Names the table of rows."""

    pattern: str  # with `${topic}` and `${schema}`
    rewrite: Sequence[Rewrite] = ()

    def table(self, topic: str, schema: str) -> str | None:
        """Return the table; None if the rows have none. The first rule that matches is applied.

        Raises TargetError for a dot that is only in the names: records would choose a schema or a database.
        """
        table, written = self.pattern.replace("${topic}", topic).replace("${schema}", schema), self.pattern
        for rule in self.rewrite:
            if found := re.fullmatch(rule.match, table):
                if rule.to is None:
                    return None
                table, written = found.expand(rule.to), rule.to
                break
        if table.count(".") > written.count("."):
            message = f"records of topic {topic} have the table {table}, with a dot that the spec does not have"
            raise TargetError(message, remedy=r"write the dot by `rewrite`: {match: 'a[.](\w+)', to: 'a.\1'}")
        return table


@dataclass(frozen=True, slots=True)
class TableSettings:
    """The settings of one table, in place of the settings of all tables."""

    key: tuple[str, ...] = ()  # empty: the key of the sink, else the key of the records
    renamed: Mapping[str, str] = field(default_factory=dict)  # by column of the table, the column of the rows
    types: Mapping[str, str] = field(default_factory=dict)  # of columns that a start creates

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
