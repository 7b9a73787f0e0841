"""The entry `format` of a source: the base of the models that `eos.formats` brings, and the contract of a format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Protocol

from connectors.api import plugins
from connectors.api.choice import Chosen
from connectors.api.model import Strict

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Undecodable:
    """One record that does not decode.

    Created by: `Format.decode`. Read by: the source, which writes it as a dead letter, skips it, or raises
    BadRecordError with `reason`, as `on_bad_record` in the spec says.
    """

    index: int  # in the column that was given
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """The result for one column: every value is either a row of `rows` or an entry of `bad`.

    Created by: `Format.decode`. Read by: the source, in a task.
    """

    rows: pa.RecordBatch  # the good records, in order
    bad: tuple[Undecodable, ...] = ()  # by ascending index


class Format(Protocol):
    """A decoder of record values into columns.

    Implemented by: a connector. Called by: a source, in a task. It is pickled inside the source, so it holds
    configuration only.

    Call order: `schema` on the driver and in tasks; `decode` once per batch of records, in any order.

    Blocking: no call blocks; `decode` does no I/O.

    Raises: SpecError when it is built with a wrong schema. `decode` raises nothing because of a value.

    Rule: the same value always decodes to the same row, so a replayed checkpoint writes the same rows (R4).
    """

    @property
    def schema(self) -> pa.Schema:
        """The columns of `Decoded.rows`."""

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a binary column that may hold nulls. Never blocks; raises nothing on account of what a value holds."""


class FormatEntry(Strict):
    """Base of the entries `format`. A subclass declares `api_version`, and `type` as a Literal of its own name."""

    api_version: ClassVar[int]
    template: ClassVar[str] = ""
    """The value of `format:` that `eos init` writes, in YAML; `{type: …}` if it is empty."""
    template_columns: ClassVar[str] = "value"
    """The columns that a template's first step selects."""

    type: str

    @property
    def schema_text(self) -> str:
        """The schema as the spec gives it, for readers of a savepoint; empty if the format has a fixed one."""
        return ""

    def build(self) -> Format:
        """Build the format. Raises SpecError."""
        raise NotImplementedError


_DECODED_BY_STEP: Final = "raw, and a step that decodes the bytes"
_INSTEAD: Final = {
    "csv": "string, and from_csv(value, …) in a step",
    "xml": "string, and from_xml(value, …) in a step",
    "debezium": "json, with a schema of Debezium's records",
    **dict.fromkeys(("avro", "protobuf", "parquet", "orc", "msgpack", "thrift", "cbor", "bson"), _DECODED_BY_STEP),
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
