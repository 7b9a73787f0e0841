"""The entry `format: {type: upsert}` of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, cast

from pydantic import AfterValidator, Field, model_validator

from connectors.api.fields import NonEmpty
from connectors.api.format import FormatEntry
from connectors.api.model import wrong
from connectors.extras import require
from connectors.formats.debezium.entry import check_types
from connectors.formats.entry import checked_ddl
from connectors.schema_registry.entry import RegistryEntry, check_encoding

if TYPE_CHECKING:
    import pyarrow as pa

    from connectors.api.decoding import Format
    from connectors.formats.debezium.avro_events import AvroEvents
    from connectors.formats.debezium.json_events import JsonEvents


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

    key: NonEmpty | None = None
    """The column whose value a record's key is, where the key is a number or a text. By default, a key has columns."""
    key_encoding: Literal["json", "confluent", "string"] | None = None
    """How `key` is written: `string`, as text; by default, as `encoding` says."""
    encoding: Literal["json", "confluent"] = "json"
    """`json`, with schemas of Connect or without; `confluent`: Avro, with the id of the writer's schema in front."""
    registry: RegistryEntry | None = None
    """The schema registry of `encoding: confluent`."""

    @model_validator(mode="after")
    def _check(self) -> UpsertEntry:
        from connectors.formats.ddl import parse_ddl

        check_encoding(self.encoding, self.registry)
        row = parse_ddl(self.ddl)
        if any(name.lower() == "_deleted" for name in row.names):
            raise wrong("column _deleted is added to each row", "another name", at="schema")
        check_types(row, self.types)
        self._check_key(row)
        return self

    def _check_key(self, row: pa.Schema) -> None:
        import pyarrow.types as pt  # loads pyarrow, as the schema does

        if self.key_encoding is not None and self.key_encoding not in ("string", self.encoding):
            raise wrong(f"values are written as {self.encoding}", self.encoding, "string", at="key_encoding")
        if self.key is None:
            if self.key_encoding is not None:
                raise wrong("'key_encoding' is for a key that is one value", "key: <column>", at="key_encoding")
            return
        if self.key not in row.names:
            raise wrong(f"column '{self.key}' is not in the schema", *row.names, at="key")
        kind = row.field(self.key).type
        if pt.is_nested(kind):
            raise wrong(f"column '{self.key}' is nested: a key is a number or a text", at="key")
        if self.key_encoding == "string" and not (pt.is_integer(kind) or pt.is_string(kind)):
            raise wrong("text is read as STRING or as a whole number", "json", "confluent", at="key_encoding")

    @property
    def schema_text(self) -> str:
        return self.ddl

    @property
    def extras(self) -> frozenset[str]:
        return frozenset() if self.registry is None else frozenset({"avro", "registry"})

    def build(self) -> Format:
        from connectors.formats.ddl import parse_ddl
        from connectors.formats.debezium.scalar_keys import AvroScalars, JsonScalars, TextScalars
        from connectors.formats.debezium.upsert_format import UpsertFormat

        row = parse_ddl(self.ddl)
        records = self._records(row)
        if self.key is None:
            return UpsertFormat(row, records)
        if self.key_encoding == "string":
            return UpsertFormat(row, records, TextScalars(row, self.key))
        if self.registry is None:
            return UpsertFormat(row, records, JsonScalars(cast("JsonEvents", records), self.key))
        return UpsertFormat(row, records, AvroScalars(cast("AvroEvents", records), self.key))

    def _records(self, row: pa.Schema) -> JsonEvents | AvroEvents:
        from connectors.formats.debezium.written import Written

        types = {column: Written(name) for column, name in self.types.items()}
        if self.registry is None:
            from connectors.formats.debezium.json_events import JsonEvents

            return JsonEvents(row, types)
        for extra in ("avro", "registry"):
            require(extra)
        from connectors.formats.avro.writers import RegisteredWriters
        from connectors.formats.debezium.avro_events import AvroEvents

        return AvroEvents(row, RegisteredWriters(self.registry.connection()), types)
