"""The entry `format: {type: debezium}` of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from connectors.api.fields import NonEmpty
from connectors.api.format import FormatEntry
from connectors.api.model import mistaken, wrong
from connectors.formats.entry import checked_ddl
from eos.errors import SpecError

if TYPE_CHECKING:
    import pyarrow as pa

    from connectors.api.decoding import Format


class DebeziumEntry(FormatEntry):
    """`format: {type: debezium, schema: …}`: each value is a change event of one table."""

    api_version: ClassVar[int] = 1
    template: ClassVar[str] = '{type: debezium, schema: "id BIGINT NOT NULL, name STRING"}'
    template_columns: ClassVar[str] = "id, name, _deleted, _partition, _offset"

    type: Literal["debezium"]
    ddl: Annotated[NonEmpty, AfterValidator(checked_ddl)] = Field(alias="schema")
    """Columns of the table and their types as Spark SQL writes them: `id BIGINT NOT NULL, price DECIMAL(10,2)`."""
    types: dict[NonEmpty, NonEmpty] = Field(default_factory=dict)
    """Debezium's types of columns, such as `at: MicroTimestamp`, for events without a schema."""
    documents: bool = False
    """`true`: `before` and `after` are JSON texts, as the connector for MongoDB writes them."""
    truncate: Literal["refuse", "skip"] = "refuse"
    """The event of a TRUNCATE: `refuse`, a bad record; `skip`, left out, and the rows stay."""

    @model_validator(mode="after")
    def _check(self) -> DebeziumEntry:
        from connectors.formats.debezium.debezium_format import EVENT  # loads pyarrow, as the schema does
        from connectors.formats.debezium.readings import check_written

        row = self._row
        taken = [name for name in row.names if name.lower() in EVENT.names]
        if taken:
            raise wrong(f"column {taken[0]} is one that each event has", "another name", at="schema")
        if self.types and self.documents:
            raise wrong("documents state their types", "no types", at="types")
        for column, name in self.types.items():
            if column not in row.names:
                raise wrong(f"column '{column}' is not in the schema", *row.names, at="types")
            try:
                check_written(column, row.field(column).type, name)
            except SpecError as error:
                raise mistaken(error, at="types") from None
        return self

    @property
    def schema_text(self) -> str:
        return self.ddl

    @property
    def _row(self) -> pa.Schema:
        from connectors.formats.ddl import parse_ddl

        return parse_ddl(self.ddl)

    def build(self) -> Format:
        from connectors.formats.debezium.debezium_format import DebeziumFormat
        from connectors.formats.debezium.json_events import JsonEvents
        from connectors.formats.debezium.written import Written

        types = {column: Written(name) for column, name in self.types.items()}
        return DebeziumFormat(self._row, JsonEvents(self._row, types, self.documents), self.truncate)
