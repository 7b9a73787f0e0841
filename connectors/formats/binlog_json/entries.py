"""The entries `format: {type: maxwell}` and `{type: canal}` of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from connectors.api.fields import NonEmpty, matching
from connectors.api.format import FormatEntry
from connectors.api.model import wrong
from connectors.formats.entry import checked_ddl

if TYPE_CHECKING:
    import pyarrow as pa

    from connectors.api.decoding import Format
    from connectors.formats.binlog_json.images import TableRows


class _BinlogEntry(FormatEntry):
    """The keys of both entries."""

    api_version: ClassVar[int] = 1
    is_special: ClassVar[bool] = True
    has_several_rows: ClassVar[bool] = True
    template_columns: ClassVar[str] = "id, name, _deleted, _partition, _offset, _row"

    type: str
    table: Annotated[str, matching(r"[^.]+\..+", "database.table")]
    """The table, as `database.table`. Records of other tables are left out."""
    ddl: Annotated[NonEmpty, AfterValidator(checked_ddl)] = Field(alias="schema")
    """Columns of the table and their types as Spark SQL writes them: `id BIGINT NOT NULL, price DECIMAL(10,2)`."""
    key: Annotated[list[NonEmpty], Field(min_length=1)]
    """Columns of the table's primary key. An update of the key is a deletion and a row."""

    @model_validator(mode="after")
    def _check(self) -> _BinlogEntry:
        import pyarrow.types as pt

        from connectors.api.decoding import ROW
        from connectors.formats.change_rows import EVENT  # loads pyarrow, as the schema does

        row = self._row
        taken = [name for name in row.names if name.lower() in {*EVENT.names, ROW}]
        if taken:
            raise wrong(f"column {taken[0]} is one that each change has", "another name", at="schema")
        for name in self.key:
            if name not in row.names:
                raise wrong(f"column '{name}' is not in the schema", *row.names, at="key")
            if pt.is_nested(row.field(name).type):
                raise wrong(f"column '{name}' is nested: its values are not compared", at="key")
        self._check_types(row)
        return self

    def _check_types(self, row: pa.Schema) -> None:
        """Raise pydantic's error for a type of a column that records cannot have."""

    @property
    def schema_text(self) -> str:
        return self.ddl

    @property
    def _row(self) -> pa.Schema:
        from connectors.formats.ddl import parse_ddl

        return parse_ddl(self.ddl)

    @property
    def _rows(self) -> TableRows:
        from connectors.formats.binlog_json.images import TableRows

        return TableRows(self._row, tuple(self.key))

    @property
    def _names(self) -> tuple[str, str]:
        database, _, table = self.table.partition(".")
        return database, table


class MaxwellEntry(_BinlogEntry):
    """`format: {type: maxwell, table: …, schema: …, key: …}`: each value is Maxwell's JSON of a changed row."""

    template: ClassVar[str] = '{type: maxwell, table: shop.orders, schema: "id BIGINT, name STRING", key: [id]}'

    type: Literal["maxwell"]

    def build(self) -> Format:
        from connectors.formats.binlog_json.maxwell_format import MaxwellFormat

        return MaxwellFormat(self._rows, self._names)


class CanalEntry(_BinlogEntry):
    """`format: {type: canal, table: …, schema: …, key: …}`: each value is Canal's flat message of changed rows."""

    template: ClassVar[str] = '{type: canal, table: shop.orders, schema: "id BIGINT, name STRING", key: [id]}'

    type: Literal["canal"]
    truncate: Literal["refuse", "skip"] = "refuse"
    """The record of a TRUNCATE: `refuse`, a bad record; `skip`, left out, and the rows stay."""

    def _check_types(self, row: pa.Schema) -> None:
        import pyarrow as pa

        from connectors.formats.binlog_json.canal_values import is_readable
        from connectors.spark_types import spark_type

        for field in row:
            if field.type == pa.timestamp("us", "UTC"):
                found = f"column {field.name} is TIMESTAMP, and Canal writes times without their zone"
                raise wrong(found, "TIMESTAMP_NTZ, and a conversion in a step", at="schema")
            if not is_readable(field.type):
                raise wrong(f"column {field.name} is {spark_type(field.type)}, not a text's", "STRING", at="schema")

    def build(self) -> Format:
        from connectors.formats.binlog_json.canal_format import CanalFormat

        return CanalFormat(self._rows, self._names, self.truncate)
