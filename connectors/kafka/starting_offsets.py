"""`starting_offsets`: where a pipeline begins to read, in its forms."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BeforeValidator, Discriminator, Field, NonNegativeInt, PlainValidator, Tag

from connectors.api.fields import NonEmpty
from connectors.api.model import Strict, shown, wrong

if TYPE_CHECKING:
    from connectors.kafka.starting import StartingOffsets as Resolvable

Edge = Literal["earliest", "latest"]

_FORMS: Final = (
    "earliest",
    "latest",
    "{timestamp: 2026-01-31T12:00:00Z}",
    "{group: name-of-a-consumer-group}",
    "{offsets: {topic/0: 17, topic/1: 4}}",
)


def _moment(value: object) -> int:
    """Milliseconds since 1970. A moment without a zone is refused: whose noon is it?"""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise wrong(f"{shown(value)} is not a moment", "2026-01-31T12:00:00Z") from None
    if not isinstance(value, datetime):
        raise wrong(f"{shown(value)} is not a moment", "2026-01-31T12:00:00Z")
    if value.tzinfo is None:
        raise wrong(f"'{value.isoformat()}' has no time zone", suggestion=f"{value.isoformat()}Z")
    return round((value - datetime.fromtimestamp(0, UTC)).total_seconds() * 1000)


def _offsets(value: object) -> dict[str, int]:
    if not isinstance(value, Mapping) or not value:
        raise wrong(f"wrong type: {shown(value)}", "topic/partition: offset, for each split")
    for split, offset in value.items():
        topic, _, partition = str(split).rpartition("/")
        if not topic or not partition.isdecimal() or str(int(partition)) != partition:
            raise wrong(f"'{split}' is not a split", "topic/partition, as in orders/0", at=str(split))
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
            raise wrong(f"{shown(offset)} is not an offset", "a whole number from 0", at=str(split))
    return {str(split): offset for split, offset in value.items()}


class FromTimestamp(Strict):
    """The first record at or after a moment."""

    timestamp_ms: Annotated[int, PlainValidator(_moment, json_schema_input_type=str)] = Field(alias="timestamp")
    """With its time zone: `2026-01-31T12:00:00Z`."""

    def resolvable(self) -> Resolvable:
        """For the connector."""
        from connectors.kafka import starting

        return starting.FromTimestamp(self.timestamp_ms)

    def words(self) -> str:
        """For people."""
        moment = datetime.fromtimestamp(self.timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
        return f"the first record at or after {moment}"


class FromGroup(Strict):
    """What a consumer group has committed."""

    group: NonEmpty
    """The group's name."""
    otherwise: Edge | None = None
    """Where partitions begin for which the group has committed nothing."""

    def resolvable(self) -> Resolvable:
        """For the connector."""
        from connectors.kafka import starting

        return starting.FromGroup(self.group, self.otherwise)

    def words(self) -> str:
        """For people."""
        return f"what group {self.group} has committed"


class FromOffsets(Strict):
    """Exact offsets."""

    offsets: Annotated[dict[str, int], PlainValidator(_offsets, json_schema_input_type=dict[str, NonNegativeInt])]
    """The first offset to read, for each `topic/partition`."""
    otherwise: Edge | None = None
    """Where partitions begin that are not named."""

    def resolvable(self) -> Resolvable:
        """For the connector."""
        from connectors.kafka import starting

        return starting.FromOffsets(self.offsets, self.otherwise)

    def words(self) -> str:
        """For people."""
        return "the offsets of the spec"


_KINDS: Final = ("timestamp", "group", "offsets")


def _one_form(value: object) -> object:
    if isinstance(value, Mapping):
        if sum(kind in value for kind in _KINDS) != 1:
            raise wrong("not one of timestamp, group and offsets", *_FORMS)
    elif not isinstance(value, str):
        raise wrong(f"wrong type: {shown(value)}", *_FORMS)
    return value


def _form(value: object) -> str:
    return next((f"<{kind}>" for kind in _KINDS if isinstance(value, Mapping) and kind in value), "<edge>")


StartingOffsets = Annotated[
    Annotated[Edge, Tag("<edge>")]
    | Annotated[FromTimestamp, Tag("<timestamp>")]
    | Annotated[FromGroup, Tag("<group>")]
    | Annotated[FromOffsets, Tag("<offsets>")],
    Discriminator(_form),
    BeforeValidator(_one_form),
]
