"""The entries `format` of a source and of a sink: the bases of the models that `eos.formats` brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias

from pydantic import GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from connectors.api import plugins
from connectors.api.choice import Chosen
from connectors.api.model import Strict

if TYPE_CHECKING:
    from connectors.api.decoding import Format
    from connectors.api.encoding import Form, RowFormat


@dataclass(frozen=True, slots=True)
class Recognized:
    """How the records of a sample decode.

    Created by: `FormatEntry.recognize`. Read by: `eos init --from-topic`, which writes it into the new spec.
    """

    keys: Mapping[str, str]  # of `format`, without `type` and `registry`
    columns: tuple[str, ...]
    note: str = ""  # for the user: fields that are left out, for example
    files: Mapping[str, str] = field(default_factory=dict)  # path from the spec's folder -> text, to be written there
    needs_registry: bool = False  # the key `registry` has to be written, too


class FormatEntry(Strict):
    """Base of the entries `format`. A subclass declares `api_version`, and `type` as a Literal of its own name."""

    api_version: ClassVar[int]
    template: ClassVar[str] = ""
    """The value of `format:` that `eos init` writes, in YAML; `{type: …}` if it is empty."""
    template_columns: ClassVar[str] = "value"
    """The columns that a template's first step selects."""

    has_several_rows: ClassVar[bool] = False
    """Whether a record may have several rows: the format's schema then has the column `_row`."""
    is_special: ClassVar[bool] = False
    """Whether its records are records of a more general format, too, which is then tried later by `recognize`."""

    type: str

    @classmethod
    def recognize(cls, name: str, values: Sequence[bytes], registry: Mapping[str, Any]) -> Recognized | None:
        """Return how to decode the values of a sample; None if they are not of this format.

        Called by `eos init --from-topic`, once for each installed format. May block for some requests to a registry.

        Args:
            name: of the new spec, for names of files.
            values: of the newest records, at least one.
            registry: the keys of `registry`; empty without a schema registry.

        Raises:
            SpecError: the values are of this format, and cannot become columns.
            SourceError: the registry does not answer.
        """
        return None

    @property
    def schema_text(self) -> str:
        """The schema as the spec gives it, for readers of a savepoint; empty if the format has a fixed one."""
        return ""

    @property
    def describes_itself(self) -> bool:
        """Whether records bring the schemas of their rows: `build` returns a `SelfDescribingFormat`."""
        return False

    @property
    def extras(self) -> frozenset[str]:
        """Extras of `eos-spark` that the format needs, on the driver and wherever tasks run."""
        return frozenset()

    @classmethod
    def sink_model(cls) -> SinkFormatModel | None:
        """Return the model of an entry `format` of a sink; None if rows cannot be written in this format."""
        return None

    def build(self) -> Format:
        """Build the format. Raises SpecError."""
        raise NotImplementedError


class SinkFormatEntry(Strict):
    """Base of the entries `format` of a sink. A subclass declares `type` as a Literal with the format's name."""

    type: str

    @property
    def form(self) -> Form:
        """How rows are written."""
        return "schema"

    @property
    def extras(self) -> frozenset[str]:
        """Extras of `eos-spark` that the format needs, on the driver and wherever tasks run."""
        return frozenset()

    @property
    def needs_topic(self) -> bool:
        """Whether the name of the topic must be known before the first row."""
        return False

    def build(self) -> RowFormat:
        """Build the format, if `form` is `schema`. Raises SpecError."""
        raise NotImplementedError


SinkFormatModel: TypeAlias = type[SinkFormatEntry]
"""The model of an entry `format` of a sink."""

_DECODED_BY_STEP: Final = "raw, and a step that decodes the bytes"
_INSTEAD: Final = {
    "xml": "string, and from_xml(value, …) in a step",
    **dict.fromkeys(("parquet", "orc", "msgpack", "thrift", "cbor", "bson"), _DECODED_BY_STEP),
}
"""By the name of a format that is not installed: the format to use instead, and the step behind it."""

_OTHER_NAMES: Final = {"text": "string", "bytes": "raw", "binary": "raw"}


def _found(name: str) -> str:
    instead = _INSTEAD.get(name.lower())
    return f"there is no format '{name}'; use {instead}" if instead is not None else ""


AnyFormat = Annotated[
    FormatEntry, Chosen(plugins.FORMATS, "type", FormatEntry, other_names=_OTHER_NAMES, unknown=_found)
]
"""The type of a field `format` that takes every installed format."""

_NAMES: Final = ("json", "string", "raw")
"""Formats of a sink that need no further key."""


def _sink_model(found: type[FormatEntry]) -> SinkFormatModel | None:
    return found.sink_model()


class _SinkFormat(Chosen[Any]):
    """A mapping, or the name of a format without further keys."""

    def _validate(self, value: Any, info: ValidationInfo) -> Any:
        return value if isinstance(value, SinkFormatEntry) else super()._validate(self._mapping(value), info)

    def _mapping(self, value: object) -> object:
        return {self._key: value} if isinstance(value, str) else value

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"enum": list(_NAMES)}, super().__get_pydantic_json_schema__(schema, handler)]}


AnySinkFormat = Annotated[
    SinkFormatEntry,
    _SinkFormat(
        plugins.FORMATS,
        "type",
        FormatEntry,
        _sink_model,
        "is not a format of a sink",
        other_names=_OTHER_NAMES,
        unknown=_found,
    ),
]
"""The type of a field `format` of a sink."""
