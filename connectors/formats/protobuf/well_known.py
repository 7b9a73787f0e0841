"""Messages of `google.protobuf` that become one value: Timestamp and the wrappers of scalars.

Source: comments of timestamp.proto and wrappers.proto.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from connectors.formats.protobuf.faults import Faults
from connectors.formats.protobuf.message import MessageStep, parts_of
from connectors.formats.protobuf.walk import LENGTH
from connectors.formats.protobuf.wire import Tokens
from connectors.formats.spans import Bytes

TIMESTAMP: Final = "google.protobuf.Timestamp"
WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)

_FIRST_S: Final = -62_135_596_800
_LAST_S: Final = 253_402_300_799
"""Seconds of the years 1 and 9999: a Timestamp has no others."""
_NANOSECONDS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class TimestampValue:
    """Seconds and nanoseconds, as TIMESTAMP."""

    what: str
    step: MessageStep  # seconds, nanos
    truncate: bool  # nanoseconds
    wire: int = LENGTH
    default: Any = None
    type: pa.DataType = pa.timestamp("us", "UTC")  # noqa: RUF009 - immutable

    def read(self, data: Bytes, tokens: Tokens, faults: Faults) -> pa.Array:
        seconds, nanos = (np.asarray(each).astype(np.int64) for each in parts_of(self.step, data, tokens, faults))
        outside = (seconds < _FIRST_S) | (seconds > _LAST_S) | (nanos < 0) | (nanos >= _NANOSECONDS)
        faults.check(tokens.row, outside, f"{self.what}: not a timestamp of the years 1 to 9999")
        if not self.truncate:
            finer = (nanos % 1_000 != 0) & ~outside
            faults.check(tokens.row, finer, f"{self.what}: nanoseconds, which TIMESTAMP does not have")
        micros = np.where(outside, 0, seconds) * 1_000_000 + nanos // 1_000
        return pa.array(micros).cast(self.type)


@dataclass(frozen=True, slots=True)
class WrapperValue:
    """The one field of a wrapper."""

    step: MessageStep
    wire: int = LENGTH

    @property
    def type(self) -> pa.DataType:
        return self.step.fields[0].field.type

    @property
    def default(self) -> Any:
        return None

    def read(self, data: Bytes, tokens: Tokens, faults: Faults) -> pa.Array:
        return parts_of(self.step, data, tokens, faults)[0]
