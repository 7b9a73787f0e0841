"""The settings of one table, where a sink has several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from connectors.log.keyed import Upsert
from connectors.sql.schema_migration import DeclaredTypes
from eos.errors import TargetError


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
