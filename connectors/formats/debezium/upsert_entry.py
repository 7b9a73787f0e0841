"""The entry `format: {type: upsert}` of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from connectors.api.fields import NonEmpty
from connectors.api.format import FormatEntry
from connectors.api.model import wrong
from connectors.formats.debezium.entry import check_types
from connectors.formats.entry import checked_ddl

if TYPE_CHECKING:
    from connectors.api.decoding import Format


class UpsertEntry(FormatEntry):
    """`format: {type: upsert, schema: …}`: a value is the new row of its key, and no value deletes the row."""

    api_version: ClassVar[int] = 1
    template: ClassVar[str] = '{type: upsert, schema: "id BIGINT NOT NULL, name STRING"}'
    template_columns: ClassVar[str] = "id, name, _deleted, _partition, _offset"

    type: Literal["upsert"]
    ddl: Annotated[NonEmpty, AfterValidator(checked_ddl)] = Field(alias="schema")
    """Columns of keys and values, and their types as Spark SQL writes them."""
    types: dict[NonEmpty, NonEmpty] = Field(default_factory=dict)
    """Kafka Connect's types of columns, such as `at: Timestamp`, for records without a schema."""

    @model_validator(mode="after")
    def _check(self) -> UpsertEntry:
        from connectors.formats.ddl import parse_ddl

        row = parse_ddl(self.ddl)
        if any(name.lower() == "_deleted" for name in row.names):
            raise wrong("column _deleted is added to each row", "another name", at="schema")
        check_types(row, self.types)
        return self

    @property
    def schema_text(self) -> str:
        return self.ddl

    def build(self) -> Format:
        from connectors.formats.ddl import parse_ddl
        from connectors.formats.debezium.json_events import JsonEvents
        from connectors.formats.debezium.upsert_format import UpsertFormat
        from connectors.formats.debezium.written import Written

        row = parse_ddl(self.ddl)
        return UpsertFormat(row, JsonEvents(row, {column: Written(name) for column, name in self.types.items()}))
