"""Days, moments and times of day, from whole numbers. Wrong values are null."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.dead_letters import FIRST_US, LAST_US
from connectors.formats.spans import Flags, Ints

_DAY_US: Final = 86_400_000_000
_HOUR_US: Final = 3_600_000_000
_MOST_HOURS: Final = 1_000
"""MySQL's TIME has up to 838 hours."""


def days(values: pa.Array) -> tuple[pa.Array, Flags]:
    """Return the dates of days since 1970."""
    numbers, given = _numbers(values)
    wrong = (numbers < FIRST_US // _DAY_US) | (numbers > LAST_US // _DAY_US)
    numbers[wrong] = 0
    return pa.array(numbers.astype(np.int32), mask=wrong | ~given).view(pa.date32()), wrong


def moments(kind: pa.DataType, times: int, over: int, values: pa.Array) -> tuple[pa.Array, Flags]:
    """Return the times of numbers since 1970 that are microseconds once they are multiplied, or divided without a rest.

    Wrong are the years before 1 and behind 9999, which no database has.
    """
    numbers, given = _numbers(values)
    micros, wrong = _micros(numbers, times, over, FIRST_US, LAST_US)
    return pa.array(micros, mask=wrong | ~given).view(kind), wrong


def times_of_day(times: int, over: int, values: pa.Array) -> tuple[pa.Array, Flags]:
    """Return times such as 13:05:00.250000, also negative ones and such as 30:00:00.000000, which MySQL's TIME has."""
    numbers, given = _numbers(values)
    most = _MOST_HOURS * _HOUR_US - 1
    micros, wrong = _micros(numbers, times, over, -most, most)
    lost = wrong | ~given
    if not ((micros < 0) | (micros >= _DAY_US)).any():
        return pa.array(micros, mask=lost).view(pa.time64("us")).cast(pa.string()), wrong
    size = np.abs(micros)
    hours = pc.utf8_lpad(pa.array(size // _HOUR_US).cast(pa.string()), 2, "0")
    within = pc.utf8_slice_codeunits(pa.array(size % _HOUR_US).view(pa.time64("us")).cast(pa.string()), 2)
    signs = pc.if_else(pa.array(micros < 0), "-", "")
    text = pc.binary_join_element_wise(signs, hours, within, "")
    return pc.if_else(pa.array(lost), pa.scalar(None, pa.string()), text), wrong


def _numbers(values: pa.Array) -> tuple[Ints, Flags]:
    """Return the numbers, 0 for null, and where one is given."""
    given = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    return values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).copy(), given


def _micros(numbers: Ints, times: int, over: int, first_us: int, last_us: int) -> tuple[Ints, Flags]:
    """Return microseconds, 0 where they are not in the bounds or the number has a rest."""
    if over > 1:
        wrong = numbers % over != 0
        micros = numbers // over
        wrong |= (micros < first_us) | (micros > last_us)
    else:
        wrong = (numbers < -(-first_us // times)) | (numbers > last_us // times)
        micros = np.where(wrong, 0, numbers) * times
    return np.where(wrong, 0, micros), wrong
