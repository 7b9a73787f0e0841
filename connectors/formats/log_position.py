"""The place of a change in the log of its database, as text that sorts in the order of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_WIDE: Final = 20
"""Digits of the largest number of 64 bits."""


def joined(texts: Sequence[pa.Array]) -> pa.Array:
    """Return the parts of each position as one text."""
    return pc.binary_join_element_wise(*texts, ":")


def digits(numbers: pa.Array) -> pa.Array:
    """Return whole numbers as texts of one width."""
    return padded(numbers.cast(pa.string()))


def padded(texts: pa.Array) -> pa.Array:
    """Return numbers of one width; 0 for null: MySQL's `row`, for example, is missing in a snapshot."""
    return pc.utf8_lpad(pc.fill_null(texts, "0"), _WIDE, "0")


def file_number(files: pa.Array) -> pa.Array:
    """Return the number at the end of each name: it has more digits from the millionth file on."""
    coded = files.dictionary_encode()
    numbers = pc.replace_substring_regex(coded.dictionary, r"^.*?([0-9]*)$", r"\1")
    return padded(numbers.take(coded.indices))
