"""The entry `format: {type: debezium}` of a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from connectors.api.fields import NonEmpty
from connectors.api.format import FormatEntry, Recognized
from connectors.api.model import mistaken, wrong
from connectors.extras import require
from connectors.formats.entry import checked_ddl
from connectors.schema_registry.entry import RegistryEntry, check_encoding
from eos.errors import SpecError

if TYPE_CHECKING:
    import pyarrow as pa

    from connectors.api.decoding import Format
    from connectors.formats.debezium.events import Encoding
    from connectors.formats.debezium.table_events import TableEncoding
    from connectors.formats.debezium.written import Written


def check_types(row: pa.Schema, types: Mapping[str, str]) -> None:
    """Raise pydantic's error if the key `types` does not fit the columns."""
    from connectors.formats.debezium.readings import check_written  # loads pyarrow, as the schema does

    for column, name in types.items():
        if column not in row.names:
            raise wrong(f"column '{column}' is not in the schema", *row.names, at="types")
        try:
            check_written(column, row.field(column).type, name)
        except SpecError as error:
            raise mistaken(error, at="types") from None


def check_names(types: Mapping[str, str]) -> None:
    """Raise pydantic's error if the key `types` has a type that no column is read from."""
    from connectors.formats.debezium.readings import WRITTEN  # loads pyarrow, as the schema does

    for column, name in types.items():
        if name not in WRITTEN:
            raise wrong(f"column {column} is not read from {name!r}", *WRITTEN, at="types")


class DebeziumEntry(FormatEntry):
    """`format: {type: debezium, schema: …}`: each value is a change event of a table, by default of any table."""

    api_version: ClassVar[int] = 1
    is_special: ClassVar[bool] = True
    template: ClassVar[str] = '{type: debezium, schema: "id BIGINT NOT NULL, name STRING"}'
    template_columns: ClassVar[str] = "id, name, _deleted, _partition, _offset"

    type: Literal["debezium"]
    ddl: Annotated[NonEmpty, AfterValidator(checked_ddl)] | None = Field(None, alias="schema")
    """Columns of the table and their types as Spark SQL writes them: `id BIGINT NOT NULL, price DECIMAL(10,2)`.
    Without them each event brings the schema of its table, and a sink of several tables takes the rows."""
    types: dict[NonEmpty, NonEmpty] = Field(default_factory=dict)
    """Debezium's types of columns, such as `at: MicroTimestamp`, for events without a schema."""
    encoding: Literal["json", "confluent"] = "json"
    """`json`, with schemas or without; `confluent`: Avro, with the id of the writer's schema in front."""
    registry: RegistryEntry | None = None
    """The schema registry of `encoding: confluent`."""
    documents: bool = False
    """`true`: `before` and `after` are JSON texts, as the connector for MongoDB writes them."""
    truncate: Literal["refuse", "skip"] = "refuse"
    """The event of a TRUNCATE: `refuse`, a bad record; `skip`, left out, and the rows stay."""

    @model_validator(mode="after")
    def _check(self) -> DebeziumEntry:
        from connectors.formats.change_rows import EVENT  # loads pyarrow, as the schema does

        check_encoding(self.encoding, self.registry)
        if self.ddl is None:
            if self.documents:
                raise wrong("documents do not state their columns", 'schema: "_id STRING, …"', at="documents")
            check_names(self.types)
            return self
        row = self._row
        taken = [name for name in row.names if name.lower() in EVENT.names]
        if taken:
            raise wrong(f"column {taken[0]} is one that each event has", "another name", at="schema")
        if self.types and self.documents:
            raise wrong("documents state their types", "no types", at="types")
        check_types(row, self.types)
        return self

    @classmethod
    def recognize(cls, name: str, values: Sequence[bytes], registry: Mapping[str, Any]) -> Recognized | None:
        """The newest event with a schema has the columns; without schemas, all events have."""
        from connectors.formats.debezium.inference import infer_avro, infer_json

        found = infer_json(values)
        keys = {}
        if found is None and registry:
            for extra in ("avro", "registry"):
                require(extra)
            found = infer_avro(values, RegistryEntry.model_validate(registry).connection())
            keys = {"encoding": "confluent"}
        if found is None:
            return None
        left_out = f"left out: {', '.join(found.left_out)}; " if found.left_out else ""
        note = f"{left_out}for a copy of the table, set commit: upsert, key, and deleted: _deleted"
        columns = (*found.columns, "_deleted", "_partition", "_offset")
        return Recognized({**keys, "schema": found.ddl}, columns, note, needs_registry=bool(keys))

    @property
    def schema_text(self) -> str:
        return self.ddl or ""

    @property
    def describes_itself(self) -> bool:
        return self.ddl is None

    @property
    def _row(self) -> pa.Schema:
        from connectors.formats.ddl import parse_ddl

        assert self.ddl is not None
        return parse_ddl(self.ddl)

    @property
    def extras(self) -> frozenset[str]:
        return frozenset() if self.registry is None else frozenset({"avro", "registry"})

    def build(self) -> Format:
        for extra in sorted(self.extras):
            require(extra)
        from connectors.formats.debezium.debezium_format import DebeziumFormat

        if self.ddl is not None:
            return DebeziumFormat(self._row, self._events(), self.truncate)
        from connectors.formats.debezium.self_describing import SelfDescribingDebezium

        return SelfDescribingDebezium(self._tables(), self.truncate)

    @property
    def _types(self) -> Mapping[str, Written]:
        from connectors.formats.debezium.written import Written

        return {column: Written(name) for column, name in self.types.items()}

    def _events(self) -> Encoding:
        if self.registry is None:
            from connectors.formats.debezium.json_events import JsonEvents

            return JsonEvents(self._row, self._types, self.documents)
        from connectors.formats.avro.writers import RegisteredWriters
        from connectors.formats.debezium.avro_events import AvroEvents

        return AvroEvents(self._row, RegisteredWriters(self.registry.connection()), self._types, self.documents)

    def _tables(self) -> TableEncoding:
        if self.registry is None:
            from connectors.formats.debezium.json_tables import JsonTables

            return JsonTables(self._types)
        from connectors.formats.avro.writers import RegisteredWriters
        from connectors.formats.debezium.avro_tables import AvroTables

        return AvroTables(RegisteredWriters(self.registry.connection()), self._types)
