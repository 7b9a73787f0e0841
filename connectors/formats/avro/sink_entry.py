"""The entry `format: {type: avro}` of a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from connectors.api.fields import LocalPath, NonEmpty
from connectors.api.model import mistaken, wrong
from connectors.extras import require
from connectors.formats.avro.entry import schema_in
from connectors.schema_registry.entry import RegisteredFormatEntry, check_encoding
from eos.errors import SpecError

if TYPE_CHECKING:
    from connectors.api.encoding import RowFormat


class AvroSinkEntry(RegisteredFormatEntry):
    """`format: {type: avro, registry: {url: …}}`: each value is one Avro record of the row's columns."""

    type: Literal["avro"]
    text: NonEmpty | None = Field(None, alias="schema")
    """The schema as JSON text; without it, the schema is derived from the columns."""
    schema_file: LocalPath | None = None
    """A file with the schema, from the spec's folder; instead of `schema`."""
    encoding: Literal["plain", "single-object", "confluent"] | None = None
    """The bytes in front of each record: none, the fingerprint of the schema, or its id in the registry. By default
    `confluent` with a registry, `plain` without."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = "schema_file" if self.schema_file is not None else "schema"
        if self.text is not None and self.schema_file is not None:
            raise wrong("both schema and schema_file", "schema_file: orders.avsc", at="schema_file")
        if self.record is not None and (self.text is not None or self.schema_file is not None):
            raise wrong(f"the record has a name in {given}", at="record")
        if self.encoding is not None:
            check_encoding(self.encoding, self.registry)
        try:
            text = self._given()
        except SpecError as error:
            raise mistaken(error, at=given) from None
        if self.subject != "topic-name" and text is None and self.record is None:
            raise wrong("the subject needs the name of a record", "record: com.example.Order", at="subject")
        return self

    @property
    def extras(self) -> frozenset[str]:
        return frozenset({"avro"} if self.registry is None else {"avro", "registry"})

    def build(self) -> RowFormat:
        require("avro")
        from connectors.formats.avro.avro_rows import AvroRows

        encoding = self.encoding or ("plain" if self.registry is None else "confluent")
        return AvroRows(self.registration(), self._given(), self.record, encoding)

    def _given(self) -> str | None:
        """Return the given schema, which is valid. Raises SpecError."""
        if self.text is None and self.schema_file is None:
            return None
        require("avro")
        from connectors.formats.avro.writers import parsed

        text = self.text if self.text is not None else schema_in(self.schema_file)
        parsed(text)
        return text
