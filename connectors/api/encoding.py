"""The contract of a format of a sink: it encodes rows as bytes. Loads no model of a spec: tasks use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from connectors.api.contracts import Finding

Part = Literal["key", "value"]

Form = Literal["json", "string", "raw", "schema"]
"""How rows are written: an object of their columns, the column `value`, or by a `RowFormat`."""


@dataclass(frozen=True, slots=True)
class MessagePart:
    """The part of a message that a format encodes."""

    sink: str  # for messages
    topic: str | None  # of all messages; None: each row names its own
    part: Part

    def is_one_value(self, schema: pa.Schema) -> bool:
        """Whether the bytes are of one column's value, and not of a record: a key of one column."""
        return self.part == "key" and len(schema) == 1


@dataclass(frozen=True, slots=True)
class UsedSchema:
    """The schema that messages are written with."""

    text: str
    id: int | None = None  # in a registry; None: no registry has it


class UnencodableError(Exception):
    """A value that the format cannot hold."""

    def __init__(self, column: str, index: int, reason: str) -> None:
        super().__init__(f"column {column}: {reason}")
        self.column = column
        self.index = index  # of the row in the batch
        self.reason = reason


class Encoder(Protocol):
    """Rows of one schema as bytes.

    Created by: `RowFormat.open`, on the driver. Called by: a sink, in a task. It is pickled into each task, and holds
    neither a connection nor a password.

    Blocking: no call blocks.
    """

    @property
    def used(self) -> UsedSchema:
        """The schema of the bytes."""

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the bytes of each row. A key of one column is NULL where the column is.

        `rows`: the columns of the part, in their order. Raises UnencodableError.
        """


class RowFormat(Protocol):
    """A format that describes rows by a schema.

    Implemented by: a format. Called by: a sink, on the driver. Immutable; it may hold a password, which no repr shows.

    Call order: `problems` first; then `open`, `reopen` or `dry_run`, for rows without problems. `check` at any time.

    Blocking: `open`, `dry_run` and `check` may send requests to a schema registry.

    `schema`: of the columns of the part, in their order.
    """

    def problems(self, part: MessagePart, schema: pa.Schema) -> Sequence[str]:
        """Return the reasons why such rows cannot be encoded; empty if they can."""

    def name_problems(self, part: MessagePart, names: Sequence[str]) -> Sequence[str]:
        """Return the reasons that follow from the names of the columns, for `eos validate`."""

    def open(self, part: MessagePart, schema: pa.Schema) -> Encoder:
        """Register the schema, and return the encoder that is sent to the tasks.

        Raises TargetError if the registry refuses the schema, SinkUnavailableError if it does not answer.
        """

    def reopen(self, part: MessagePart, schema: pa.Schema, used: UsedSchema) -> Encoder | None:
        """Return the encoder that an earlier start has used, without a request; None if the rows have changed."""

    def dry_run(self, part: MessagePart, schema: pa.Schema) -> None:
        """Raise the errors of `open`. Registers nothing."""

    def check(self, part: MessagePart, schema: pa.Schema | None) -> Sequence[Finding]:
        """Return the findings for `eos doctor`. `schema`: None if not known. Registers and raises nothing."""
