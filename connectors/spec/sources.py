"""The entries of `sources`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from connectors.spec.fields import NonEmpty, StepName, as_written, matching, without
from connectors.spec.model import Strict, refuse, wrong
from twophase.errors import SpecError

_MAX_NESTING: Final = 64
_KEPT_IN_HEAD: Final = "positions are kept with the checkpoints and given to Kafka only for lag tools"
_SET_ELSEWHERE: Final = {
    "bootstrap.servers": "write it as bootstrap_servers",
    "metadata.broker.list": "write it as bootstrap_servers",
    "group.id": "write it as group_id",
    "isolation.level": "write it as isolation_level",
    "auto.offset.reset": "write it as starting_offsets",
    "enable.auto.commit": _KEPT_IN_HEAD,
    "enable.auto.offset.store": _KEPT_IN_HEAD,
    "auto.commit.enable": _KEPT_IN_HEAD,
}


def _topics(topics: list[str]) -> list[str]:
    if len(set(topics)) < len(topics):
        twice = next(topic for topic in topics if topics.count(topic) > 1)
        raise wrong(f"the topic '{twice}' stands twice")
    return topics


Topic = Annotated[
    str,
    refuse({".": "'.' is not a topic", "..": "'..' is not a topic"}),
    matching(r"[A-Za-z0-9._-]{1,249}", "a topic's name (letters, digits, '.', '_' and '-'; no patterns)"),
]


def _schema(ddl: str) -> str:
    from connectors.formats import parse_ddl  # loads pyarrow, which only this format needs

    if ddl.count("<") > _MAX_NESTING:
        raise wrong("the schema is nested too deeply", f"at most {_MAX_NESTING} of ARRAY<, MAP< and STRUCT<")
    try:
        parse_ddl(ddl)
    except SpecError as error:
        raise wrong(error.message, *([error.remedy] if error.remedy else [])) from None
    return ddl


class JsonFormat(Strict):
    """`format: {type: json, schema: …}`: each value is one JSON object with these columns."""

    type: Literal["json"]
    ddl: Annotated[NonEmpty, AfterValidator(_schema)] = Field(alias="schema")  # "id BIGINT, name STRING"


class StringFormat(Strict):
    """`format: {type: string}`: each value is UTF-8 text, in the column `value`."""

    type: Literal["string"]


class RawFormat(Strict):
    """`format: {type: raw}`: each value is bytes, in the column `value`."""

    type: Literal["raw"]


Format = Annotated[JsonFormat | StringFormat | RawFormat, Field(discriminator="type")]


class KafkaEntry(Strict):
    """`connector: kafka`."""

    name: StepName
    connector: Literal["kafka"]
    bootstrap_servers: Annotated[NonEmpty, matching(r"\S+", "host:port, or several with commas and no blanks")]
    topics: Annotated[list[Topic], Field(min_length=1), AfterValidator(_topics)]
    format: Format
    starting_offsets: Literal["earliest", "latest"] = "earliest"
    on_bad_record: Literal["fail", "skip"] = "fail"
    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed"
    group_id: NonEmpty | None = None
    properties: Annotated[dict[str, str], as_written, without(_SET_ELSEWHERE)] = Field(default_factory=dict)

    def arguments(self) -> dict[str, object]:
        """What the connector is built with. `properties` may contain passwords."""
        from connectors.formats import format_of  # loads pyarrow

        schema = self.format.ddl if isinstance(self.format, JsonFormat) else None
        return {
            "name": self.name,
            "bootstrap_servers": self.bootstrap_servers,
            "topics": tuple(self.topics),
            "starting_offsets": self.starting_offsets,
            "format": format_of(self.format.type, schema),
            "properties": dict(self.properties),
            "on_bad_record": self.on_bad_record,
            "group_id": self.group_id,
            "isolation_level": self.isolation_level,
        }
