"""The entries `format` of a source and of a sink: json, string and raw. Imports no pyarrow: only JSON with a schema
needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from connectors.api.fields import NonEmpty
from connectors.api.format import FormatEntry, Recognized, SinkFormatEntry, SinkFormatModel
from connectors.api.model import mistaken, wrong
from connectors.extras import require
from connectors.schema_registry.entry import RegisteredFormatEntry, RegistryEntry, check_encoding
from eos.errors import SpecError

if TYPE_CHECKING:
    from connectors.api.decoding import Format
    from connectors.api.encoding import Form, RowFormat

_MAX_NESTING: Final = 64


def checked_ddl(ddl: str) -> str:
    """Return the schema if JSON can be decoded into it. Raises pydantic's error otherwise."""
    from connectors.formats.ddl import parse_ddl  # loads pyarrow
    from connectors.formats.wire import check as check_json

    if _depth(ddl) > _MAX_NESTING:
        raise wrong("the schema is nested too deeply", f"at most {_MAX_NESTING} levels of ARRAY<, MAP< and STRUCT<")
    try:
        check_json(parse_ddl(ddl))
    except SpecError as error:
        raise mistaken(error) from None
    return ddl


def _depth(ddl: str) -> int:
    """Return how deep brackets are nested; a bracket in a quoted name counts, too."""
    steps = ({"<": 1, ">": -1}.get(each, 0) for each in ddl)
    return max(accumulate(steps, initial=0))


class JsonSinkEntry(RegisteredFormatEntry):
    """`format: {type: json, registry: …}`: each value is a JSON object, behind the id of its JSON Schema."""

    type: Literal["json"]

    @model_validator(mode="after")
    def _check_subject(self) -> Self:
        if self.registry is None and self.record is not None:
            raise wrong("only a schema has the name of a record", "registry: {url: …}", at="record")
        if self.subject != "topic-name" and self.record is None:
            raise wrong("the subject needs the name of a record", "record: com.example.Order", at="subject")
        return self

    @property
    def form(self) -> Form:
        return "json" if self.registry is None else "schema"

    @property
    def extras(self) -> frozenset[str]:
        return frozenset({"registry"} if self.registry is not None else ())

    def build(self) -> RowFormat:
        from connectors.formats.json_rows import JsonRows

        return JsonRows(self.registration(), self.record)


class StringSinkEntry(SinkFormatEntry):
    """`format: string`: each value is the column `value`, which is text."""

    type: Literal["string"]

    @property
    def form(self) -> Form:
        return "string"


class RawSinkEntry(SinkFormatEntry):
    """`format: raw`: each value is the column `value`, which is binary."""

    type: Literal["raw"]

    @property
    def form(self) -> Form:
        return "raw"


class JsonEntry(FormatEntry):
    """`format: {type: json, schema: …}`: each value is one JSON object with these columns."""

    api_version: ClassVar[int] = 1
    template: ClassVar[str] = '{type: json, schema: "id BIGINT NOT NULL, name STRING, at TIMESTAMP"}'
    template_columns: ClassVar[str] = "id, name, at"

    type: Literal["json"]
    ddl: Annotated[NonEmpty, AfterValidator(checked_ddl)] = Field(alias="schema")
    """Columns and types as Spark SQL writes them: `id BIGINT NOT NULL, name STRING, at TIMESTAMP`."""
    encoding: Literal["plain", "confluent"] = "plain"
    """The bytes in front of each object: none, or the id of a JSON Schema in a registry."""
    registry: RegistryEntry | None = None
    """The schema registry of `encoding: confluent`."""
    envelope: Literal["none", "connect"] = "none"
    """`connect`: the object is the `payload` beside a `schema`, as Kafka Connect's JsonConverter writes it."""

    @model_validator(mode="after")
    def _check(self) -> JsonEntry:
        check_encoding(self.encoding, self.registry)
        if self.envelope == "connect" and self.registry is not None:
            raise wrong("a record has its schema in the registry, or in the envelope", "one of them", at="envelope")
        return self

    @property
    def extras(self) -> frozenset[str]:
        return frozenset({"registry"} if self.registry is not None else ())

    @property
    def schema_text(self) -> str:
        return self.ddl

    @classmethod
    def recognize(cls, name: str, values: Sequence[bytes], registry: Mapping[str, Any]) -> Recognized | None:
        from connectors.formats.json_recognition import recognize_json

        return recognize_json(values, RegistryEntry.model_validate(registry) if registry else None)

    def build(self) -> Format:
        from connectors.formats.ddl import parse_ddl
        from connectors.formats.json_values import JsonFormat

        columns = parse_ddl(self.ddl)
        if self.registry is not None:
            require("registry")
            from connectors.formats.registered_json import RegisteredJsonFormat

            return RegisteredJsonFormat(columns, self.registry.connection())
        if self.envelope == "connect":
            from connectors.formats.connect_json import ConnectJsonFormat

            return ConnectJsonFormat(columns)
        return JsonFormat(columns)

    @classmethod
    def sink_model(cls) -> SinkFormatModel:
        return JsonSinkEntry


class StringEntry(FormatEntry):
    """`format: {type: string}`: each value is UTF-8 text, in the column `value`."""

    api_version: ClassVar[int] = 1
    template: ClassVar[str] = "{type: string}  # one column, value: text"

    type: Literal["string"]

    @classmethod
    def recognize(cls, name: str, values: Sequence[bytes], registry: Mapping[str, Any]) -> Recognized | None:
        try:
            texts = [value.decode() for value in values]
        except UnicodeDecodeError:
            return None
        return None if any("\0" in text for text in texts) else Recognized({}, ("value",))

    def build(self) -> Format:
        from connectors.formats.plain import StringFormat

        return StringFormat()

    @classmethod
    def sink_model(cls) -> SinkFormatModel:
        return StringSinkEntry


class RawEntry(FormatEntry):
    """`format: {type: raw}`: each value is bytes, in the column `value`."""

    api_version: ClassVar[int] = 1
    template: ClassVar[str] = "{type: raw}  # one column, value: bytes"

    type: Literal["raw"]

    @classmethod
    def recognize(cls, name: str, values: Sequence[bytes], registry: Mapping[str, Any]) -> Recognized | None:
        return Recognized({}, ("value",))

    def build(self) -> Format:
        from connectors.formats.plain import RawFormat

        return RawFormat()

    @classmethod
    def sink_model(cls) -> SinkFormatModel:
        return RawSinkEntry
