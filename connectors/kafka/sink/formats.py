"""The formats of a sink's messages that describe rows by a schema. On the driver; tasks get their encoders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.api.encoding import Encoder, MessagePart, Part, RowFormat, UsedSchema
from connectors.kafka.sink.layout import Layout, not_messages
from eos.errors import ConnectorError

Encoders = Mapping[Part, Encoder]
"""By the part of a message."""


@dataclass(frozen=True, slots=True)
class Formats:
    """None: the part has no schema, and the layout says how it is written."""

    value: RowFormat | None = None
    key: RowFormat | None = None

    def check_rows(self, sink: str, layout: Layout, schema: pa.Schema) -> None:
        """Raise TargetError for rows that the formats cannot encode. The layout has found all columns."""
        found = [each for part, form, rows in self._parts(sink, layout, schema) for each in form.problems(part, rows)]
        if found:
            raise not_messages(sink, list(dict.fromkeys(found)))

    def open(self, sink: str, layout: Layout, schema: pa.Schema) -> Encoders:
        """Register the schemas, and return the encoders. Raises TargetError, SinkUnavailableError."""
        return {part.part: form.open(part, rows) for part, form, rows in self._parts(sink, layout, schema)}

    def reopen(self, sink: str, layout: Layout, schema: pa.Schema, used: Mapping[str, UsedSchema]) -> Encoders | None:
        """Return the encoders of an earlier start, without a request; None if its schemas are not of these rows."""
        found: dict[Part, Encoder] = {}
        for part, form, rows in self._parts(sink, layout, schema):
            before = used.get(part.part)
            encoder = None if before is None else form.reopen(part, rows, before)
            if encoder is None:
                return None
            found[part.part] = encoder
        return found if found.keys() == used.keys() else None

    def dry_run(self, sink: str, layout: Layout, schema: pa.Schema) -> None:
        """Raise the errors of `open`. Registers nothing."""
        for part, form, rows in self._parts(sink, layout, schema):
            form.dry_run(part, rows)

    def findings(self, sink: str, layout: Layout, schema: pa.Schema | None) -> Iterator[Finding]:
        """Yield the findings for `eos doctor`."""
        try:
            if schema is not None:
                layout.check(sink, schema)
        except ConnectorError:  # the check `columns` finds it
            schema = None
        for part, form, rows in self._parts(sink, layout, schema):
            yield from form.check(part, rows)

    def name_problems(self, sink: str, layout: Layout, names: Sequence[str]) -> list[tuple[Part, str]]:
        """Return the reasons, each with its part, why rows with columns of these names cannot be encoded."""
        found: list[tuple[Part, str]] = []
        if self.value is not None:
            part = MessagePart(sink, layout.topic, "value")
            found += [("value", each) for each in self.value.name_problems(part, layout.value_names(names))]
        if self.key is not None:
            part = MessagePart(sink, layout.topic, "key")
            found += [("key", each) for each in self.key.name_problems(part, layout.key)]
        return found

    def _parts(
        self, sink: str, layout: Layout, schema: pa.Schema | None
    ) -> Iterator[tuple[MessagePart, RowFormat, pa.Schema]]:
        """Yield the formats that there are, each with the columns of its part."""
        if self.value is not None:
            names = [] if schema is None else layout.value_columns(schema)
            yield MessagePart(sink, layout.topic, "value"), self.value, _selected(schema, names)
        if self.key is not None:
            yield MessagePart(sink, layout.topic, "key"), self.key, _selected(schema, layout.key)


def _selected(schema: pa.Schema | None, names: Sequence[str]) -> pa.Schema | None:
    return None if schema is None else pa.schema([schema.field(name) for name in names])
