"""The entry `format: {type: protobuf}` of a source."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from connectors.api.fields import LocalPath, NonEmpty
from connectors.api.format import FormatEntry, Recognized
from connectors.api.model import mistaken, wrong
from connectors.extras import require
from connectors.schema_registry.entry import RegistryEntry, check_encoding
from eos.errors import ConnectorError, SpecError

if TYPE_CHECKING:
    from connectors.api.decoding import Format

_SCHEMAS = ("schema", "schema_file", "descriptor_file")


class ProtobufEntry(FormatEntry):
    """`format: {type: protobuf, message: shop.Order, …}`: each value is one message of Protobuf."""

    api_version: ClassVar[int] = 1
    template: ClassVar[str] = (
        """{type: protobuf, message: Row, schema: 'syntax = "proto3"; message Row { string value = 1; }'}"""
    )

    type: Literal["protobuf"]
    message: NonEmpty | None = None
    """The message whose fields are the columns, by its name with the package."""
    text: NonEmpty | None = Field(None, alias="schema")
    """The text of a .proto file that imports at most files of `google/protobuf`. With a registry, message and schema
    may be missing: each record is then read with its own schema, and a sink of several tables takes the rows."""
    schema_file: LocalPath | None = None
    """A .proto file, from the spec's folder; it imports files by their paths from its own folder."""
    descriptor_file: LocalPath | None = None
    """A file that `protoc --include_imports --descriptor_set_out` has written, instead of a .proto file."""
    encoding: Literal["plain", "confluent"] = "plain"
    """The bytes in front of each message: none, or the id of the writer's schema in a registry."""
    registry: RegistryEntry | None = None
    """The schema registry of `encoding: confluent`."""
    as_bytes: list[NonEmpty] = Field(default_factory=list)
    """Messages that stay as they are, in a column BINARY, such as a message that contains itself."""
    truncate_nanoseconds: bool = False
    """`true`: cut them off, since a TIMESTAMP has microseconds. Otherwise such a record is bad."""

    @model_validator(mode="after")
    def _check(self) -> ProtobufEntry:
        given = [name for name, value in zip(_SCHEMAS, self._given, strict=True) if value is not None]
        if len(given) != 1 and not self.describes_itself:
            found = " and ".join(given) or "no schema"
            raise wrong(found, "one of schema, schema_file and descriptor_file", at=given[-1] if given else "schema")
        if given and self.message is None:
            raise wrong("a schema, and none of its messages is named", "message: shop.Order", at="message")
        check_encoding(self.encoding, self.registry)
        try:
            self.build()
        except ConnectorError as error:
            raise mistaken(SpecError(error.message, remedy=error.remedy), at=given[0] if given else "type") from None
        return self

    @property
    def describes_itself(self) -> bool:
        return self._given == (None, None, None) and self.message is None and self.encoding == "confluent"

    @property
    def _given(self) -> tuple[str | Path | None, ...]:
        return self.text, self.schema_file, self.descriptor_file

    @property
    def extras(self) -> frozenset[str]:
        return frozenset({"protobuf"} if self.registry is None else {"protobuf", "registry"})

    @property
    def schema_text(self) -> str:
        """The text of the .proto file, or the descriptors in base64; in front of both, the name of the message. Empty
        if records bring their schema."""
        if self.describes_itself:
            return ""
        if self.descriptor_file is not None:
            return f"// {self.message}\n{b64encode(self._descriptors()).decode()}"
        text = self.text if self.text is not None else _content(self.schema_file).decode(errors="replace")
        return f"// {self.message}\n{text}"

    @classmethod
    def recognize(cls, name: str, values: Sequence[bytes], registry: Mapping[str, Any]) -> Recognized | None:
        """The reader's schema is the newest one of the sample. All records are of one message."""
        if not registry:
            return None
        from connectors.formats.protobuf.indexes import messages_in

        found = messages_in(values)
        if found is None:
            return None
        for extra in ("protobuf", "registry"):
            require(extra)
        from connectors.formats.protobuf.protobuf_format import ProtobufFormat, Reader
        from connectors.formats.protobuf.writers import descriptors_of, newest_of

        newest = newest_of(RegistryEntry.model_validate(registry).connection(), found)
        if newest is None:
            return None
        file = f"{name}.proto"
        imports = dict(newest.schema.imports)
        if file in imports:
            raise SpecError(f"the schema of the records imports a file {file}", remedy="give the pipeline another name")
        reader = Reader(descriptors_of(newest.schema), newest.message)
        keys = {"encoding": "confluent", "message": newest.message, "schema_file": file}
        note = f"{file} is schema {newest.schema_id} of the registry"
        columns = tuple(ProtobufFormat(reader).schema.names)
        return Recognized(keys, columns, note, {**imports, file: newest.schema.text}, needs_registry=True)

    def build(self) -> Format:
        require("protobuf")
        if self.describes_itself:
            return self._tables()
        from connectors.formats.protobuf.protobuf_format import ProtobufFormat, Reader, validate
        from connectors.formats.protobuf.writers import RegisteredWriters

        assert self.message is not None
        reader = Reader(self._descriptors(), self.message, frozenset(self.as_bytes), self.truncate_nanoseconds)
        validate(reader)
        if self.registry is None:
            return ProtobufFormat(reader)
        require("registry")
        return ProtobufFormat(reader, RegisteredWriters(self.registry.connection()))

    def _tables(self) -> Format:
        assert self.registry is not None
        require("registry")
        from connectors.formats.protobuf.self_describing import SelfDescribingProtobuf
        from connectors.formats.protobuf.writers import RegisteredWriters

        writers = RegisteredWriters(self.registry.connection())
        return SelfDescribingProtobuf(writers, frozenset(self.as_bytes), self.truncate_nanoseconds)

    def _descriptors(self) -> bytes:
        """Return the files that the message needs, compiled."""
        from connectors.formats.protobuf.compiler import compile_file, compile_text
        from connectors.formats.protobuf.descriptors import needed

        if self.text is not None:
            compiled = compile_text(self.text, {})
        elif self.schema_file is not None:
            _content(self.schema_file)
            compiled = compile_file(self.schema_file)
        else:
            compiled = _content(self.descriptor_file)
        assert self.message is not None
        return needed(compiled, self.message)


def _content(path: Path | None) -> bytes:
    """Return the bytes of a file with a schema. Raises SpecError if it cannot be read."""
    assert path is not None
    try:
        return path.read_bytes()
    except OSError as error:
        message = f"the Protobuf schema in {path} cannot be read: {error.strerror or error}"
        raise SpecError(message, remedy="check the path, which starts at the spec's folder") from error
