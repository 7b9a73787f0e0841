"""What dead letters are called: the columns of a table, and the headers of a message. Imports nothing."""

from __future__ import annotations

from typing import Final

NAME: Final = "dead_letter"
"""The sink's, unless the spec gives it another."""

COLUMNS: Final = (
    "source",  # as the spec calls it, of the record that this is; NULL where it is only a row as JSON
    "sink",  # that refused the row; STEP and the step's name if a rule rejected the row; NULL for a bad record
    "topic",
    "partition",
    "offset",
    "timestamp",  # the record's
    "key",
    "value",
    "headers",  # see dead_letters.encode_headers
    "error",  # in words
    "checkpoint_id",
)

STEP: Final = "step:"
"""Prefix of a step's name in the column `sink`. No sink has such a name where a rule may reject rows."""

MESSAGE_HEADERS: Final = {f"eos.{name}": name for name in COLUMNS if name not in {"key", "value", "headers"}}
"""Header of a message -> column. Its key, value and other headers are the record's."""
