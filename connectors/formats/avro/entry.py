"""The entry `format: {type: avro}` of a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from connectors.api.fields import LocalPath, NonEmpty
from connectors.api.format import FormatEntry, Recognized, SinkFormatModel
from connectors.api.model import mistaken, wrong
from connectors.extras import require
from connectors.schema_registry.entry import RegistryEntry, check_encoding
from eos.errors import SpecError

if TYPE_CHECKING:
    from connectors.api.decoding import Format
    from connectors.formats.avro.writers import Writers


class AvroEntry(FormatEntry):
    """`format: {type: avro, schema_file: …}`: each value is one Avro record. Without a schema, it is of any type."""

    api_version: ClassVar[int] = 1
    template: ClassVar[str] = (
        """{type: avro, schema: '"string"'}  # or schema_file: row.avsc, whose fields are columns"""
    )

    type: Literal["avro"]
    text: NonEmpty | None = Field(None, alias="schema")
    """The reader's schema as JSON text: its fields are the columns. With a registry, it may be missing: each record is
    then read with its own schema, and a sink of several tables takes the rows."""
    schema_file: LocalPath | None = None
    """A file with the reader's schema, from the spec's folder; instead of `schema`."""
    encoding: Literal["plain", "single-object", "confluent"] = "plain"
    """The bytes in front of each record: none, the fingerprint of the writer's schema, or its id in a registry."""
    registry: RegistryEntry | None = None
    """The schema registry of `encoding: confluent`."""
    writer_schema_files: list[LocalPath] = Field(default_factory=list)
    """Schemas of records that were not written with the reader's. One at most where `encoding` is `plain`."""
    truncate_nanoseconds: bool = False
    """`true`: cut them off, since a TIMESTAMP has microseconds. Otherwise such a record is bad."""

    @model_validator(mode="after")
    def _check(self) -> AvroEntry:
        if (self.text is None) == (self.schema_file is None) and not self.describes_itself:
            found = "both schema and schema_file" if self.text else "neither schema nor schema_file"
            raise wrong(found, "schema_file: orders.avsc", at="schema_file")
        if self.encoding == "plain" and len(self.writer_schema_files) > 1:
            raise wrong(
                f"{len(self.writer_schema_files)} schemas, and no record names its own",
                "one schema",
                "encoding: single-object",
                at="writer_schema_files",
            )
        check_encoding(self.encoding, self.registry)
        if self.encoding == "confluent" and self.writer_schema_files:
            raise wrong("the registry has the writers' schemas", at="writer_schema_files")
        try:
            self.build()
        except SpecError as error:
            raise mistaken(error, at="schema_file" if self.schema_file else "schema") from None
        return self

    @property
    def describes_itself(self) -> bool:
        return self.text is None and self.schema_file is None and self.encoding == "confluent"

    @property
    def extras(self) -> frozenset[str]:
        return frozenset({"avro"} if self.registry is None else {"avro", "registry"})

    @property
    def schema_text(self) -> str:
        if self.describes_itself:
            return ""
        return self.text if self.text is not None else schema_in(self.schema_file)

    @classmethod
    def recognize(cls, name: str, values: Sequence[bytes], registry: Mapping[str, Any]) -> Recognized | None:
        """The reader's schema is the newest one of the sample."""
        if not registry:
            return None
        from connectors.formats.avro.writers import newest_of
        from connectors.formats.framing import ids_in

        ids = ids_in(values)
        if ids is None:
            return None
        for extra in ("avro", "registry"):
            require(extra)
        newest = newest_of(RegistryEntry.model_validate(registry).connection(), ids)
        if newest is None:
            return None
        number, text = newest
        file = f"{name}.avsc"
        entry = cls.model_validate({"type": "avro", "schema": text, "encoding": "confluent", "registry": registry})
        keys = {"encoding": "confluent", "schema_file": file}
        note = f"{file} is schema {number} of the registry"
        return Recognized(keys, tuple(entry.build().schema.names), note, {file: text}, needs_registry=True)

    @classmethod
    def sink_model(cls) -> SinkFormatModel:
        from connectors.formats.avro.sink_entry import AvroSinkEntry

        return AvroSinkEntry

    def build(self) -> Format:
        require("avro")
        if self.describes_itself:
            return self._tables()
        from connectors.formats.avro.avro_format import AvroFormat

        built = AvroFormat(self.schema_text, self._writers(), self.truncate_nanoseconds)
        built.validate()
        return built

    def _tables(self) -> Format:
        assert self.registry is not None
        require("registry")
        from connectors.formats.avro.self_describing import SelfDescribingAvro
        from connectors.formats.avro.writers import RegisteredWriters

        return SelfDescribingAvro(RegisteredWriters(self.registry.connection()), self.truncate_nanoseconds)

    def _writers(self) -> Writers:
        from connectors.formats.avro.writers import GivenWriters, OneWriter, RegisteredWriters

        if self.registry is not None:
            require("registry")
            return RegisteredWriters(self.registry.connection())
        texts = [schema_in(path) for path in self.writer_schema_files]
        if self.encoding == "single-object":
            return GivenWriters((self.schema_text, *texts))
        return OneWriter(texts[0] if texts else self.schema_text)


def schema_in(path: Path | None) -> str:
    """Return the text of a file with a schema. Raises SpecError if it cannot be read."""
    assert path is not None
    try:
        return path.read_text()
    except (OSError, UnicodeError) as error:
        message = f"the Avro schema in {path} cannot be read: {getattr(error, 'strerror', None) or error}"
        raise SpecError(message, remedy="check the path, which starts at the spec's folder") from error
