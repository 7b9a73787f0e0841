"""The entry `format` of a source: the base of the models that `eos.formats` brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from connectors.api import plugins
from connectors.api.choice import Chosen
from connectors.api.model import Strict

if TYPE_CHECKING:
    from connectors.api.decoding import Format


@dataclass(frozen=True, slots=True)
class Recognized:
    """How the records of a sample decode.

    Created by: `FormatEntry.recognize`. Read by: `eos init --from-topic`, which writes it into the new spec.
    """

    keys: Mapping[str, str]  # of `format`, without `type` and `registry`
    columns: tuple[str, ...]
    note: str = ""  # for the user: fields that are left out, for example
    files: Mapping[str, str] = field(default_factory=dict)  # name -> text, to be written beside the spec
    needs_registry: bool = False  # the key `registry` has to be written, too


class FormatEntry(Strict):
    """Base of the entries `format`. A subclass declares `api_version`, and `type` as a Literal of its own name."""

    api_version: ClassVar[int]
    template: ClassVar[str] = ""
    """The value of `format:` that `eos init` writes, in YAML; `{type: …}` if it is empty."""
    template_columns: ClassVar[str] = "value"
    """The columns that a template's first step selects."""

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
    def extras(self) -> frozenset[str]:
        """Extras of `eos-spark` that the format needs, on the driver and wherever tasks run."""
        return frozenset()

    def build(self) -> Format:
        """Build the format. Raises SpecError."""
        raise NotImplementedError


_DECODED_BY_STEP: Final = "raw, and a step that decodes the bytes"
_INSTEAD: Final = {
    "csv": "string, and from_csv(value, …) in a step",
    "xml": "string, and from_xml(value, …) in a step",
    **dict.fromkeys(("protobuf", "parquet", "orc", "msgpack", "thrift", "cbor", "bson"), _DECODED_BY_STEP),
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
