"""The section `dead_letter`: a sink for what the pipeline could not take, whose rows are not the spec's to shape."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from connectors.dead_letter_names import MESSAGE_HEADERS, NAME
from connectors.spec.fields import NonEmpty, Title
from connectors.spec.kafka_sink import KafkaSinkEntry
from connectors.spec.model import Strict, wrong
from connectors.spec.settings import CheckpointSettings
from connectors.spec.sinks import UPSERT, MySqlEntry, PostgresEntry, SqliteEntry

_OF_ROWS: Final = ("topic_column", "format", "key", "headers", "partition", "timestamp", "deleted")


class _DeadLetter(Strict):
    """What all of them have."""

    name: Title = NAME
    """Stands in transaction ids: do not change it while the pipeline lives."""
    from_: NonEmpty | None = Field(None, alias="from")
    """Not given: what comes here are records of every source."""

    @model_validator(mode="after")
    def _takes_what_there_is(self) -> Self:
        if self.from_ is not None:
            raise wrong("dead letters come from every source, not from a step", "without `from`", at="from")
        if getattr(self, "commit", None) == UPSERT:
            raise wrong("dead letters have no key to be merged by", "two-phase", "write-ahead-log", at="commit")
        return self


class MySqlDeadLetter(_DeadLetter, MySqlEntry):
    """`connector: mysql`: a table of MySQL or MariaDB."""

    name: Title = NAME
    """Stands in transaction ids: do not change it while the pipeline lives."""


class PostgresDeadLetter(_DeadLetter, PostgresEntry):
    """`connector: postgresql`: a table of PostgreSQL."""

    name: Title = NAME
    """Stands in transaction ids: do not change it while the pipeline lives."""


class SqliteDeadLetter(_DeadLetter, SqliteEntry):
    """`connector: sqlite`: a table of a SQLite file on this machine."""

    name: Title = NAME
    """Stands in transaction ids: do not change it while the pipeline lives."""


class KafkaDeadLetter(_DeadLetter, KafkaSinkEntry):
    """`connector: kafka`: a topic. Messages have the records' own key, value and headers, and headers `eos.…` more."""

    name: Title = NAME
    """Stands in transaction ids: do not change it while the pipeline lives."""

    @model_validator(mode="after")
    def _messages_are_the_records(self) -> Self:
        for field in _OF_ROWS:
            if field in self.model_fields_set:
                raise wrong("a dead letter has the key, the value and the headers of its record", at=field)
        return self

    def arguments(self, checkpoint: CheckpointSettings, several_topics: bool | None) -> dict[str, object]:
        from connectors.kafka.sink.layout import Layout  # loads pyarrow

        layout = Layout(self.topic, format="raw", key=("key",), headers=MESSAGE_HEADERS, carried="headers")
        return {**super().arguments(checkpoint, several_topics), "layout": layout}


DeadLetterEntry = Annotated[
    MySqlDeadLetter | PostgresDeadLetter | SqliteDeadLetter | KafkaDeadLetter, Field(discriminator="connector")
]
