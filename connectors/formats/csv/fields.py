"""The fields of a batch of CSV records, found by numpy. Each value is one record, independent of its neighbours.

Source: RFC 4180. A field is quoted, or has no quotes. In a quoted field, a quote is doubled, or has the escape
character in front of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.casting import add_faults, flags
from connectors.formats.spans import Bytes, Flags, Ints, Spans, as_text, binary_of, content_of

_CR, _LF = b"\r\n"
_OPEN: Final = "a quoted field that does not end"
_LINES: Final = "a line end outside of quotes: more than one record"


@dataclass(frozen=True, slots=True)
class Dialect:
    """The characters between and around fields. Each is one of ASCII."""

    delimiter: str = ","
    quote: str = '"'
    escape: str | None = None  # None: a quote inside of quotes is doubled


@dataclass(frozen=True, slots=True)
class Records:
    """Records with the right number of fields."""

    dialect: Dialect
    data: Bytes
    places: Ints  # in the batch
    spans: tuple[Spans, ...]  # by column: of each record
    quotes: Ints  # positions of quotes that are not escaped


def split_records(values: pa.Array, count: int, dialect: Dialect) -> tuple[Records, dict[int, str]]:
    """Return the records of `count` fields, and the reasons of the other values by index.

    `values`: a binary column without nulls.
    """
    data, start, end = content_of(values)
    quote = ord(dialect.quote)
    quotes = np.flatnonzero(data == quote)
    if dialect.escape is not None and len(quotes):
        quotes = quotes[~_escaped(data, quotes, ord(dialect.escape), start)]
    before, behind = np.searchsorted(quotes, start), np.searchsorted(quotes, end)
    is_open = (behind - before) % 2 == 1
    end = _without_line_end(data, start, end)

    def outside(marks: Ints) -> tuple[Ints, Ints]:
        """Return the marks outside of quotes that are inside of values, and their values."""
        owner = np.searchsorted(start, marks, side="right") - 1
        inside = (owner >= 0) & (marks < end[owner])
        marks, owner = marks[inside], owner[inside]
        plain = (np.searchsorted(quotes, marks) - before[owner]) % 2 == 0
        return marks[plain], owner[plain]

    _, lines = outside(np.flatnonzero((data == _CR) | (data == _LF)))
    delimiters, owners = outside(np.flatnonzero(data == ord(dialect.delimiter)))
    fields = np.bincount(owners, minlength=len(start)) + 1
    reasons = dict.fromkeys(np.flatnonzero(fields != count).tolist(), "")
    for at in reasons:
        reasons[at] = f"{fields[at]} fields, and the schema has {count} columns"
    reasons |= dict.fromkeys(np.unique(lines).tolist(), _LINES)
    reasons |= dict.fromkeys(np.flatnonzero(is_open).tolist(), _OPEN)
    good = np.ones(len(start), np.bool_)
    good[list(reasons)] = False
    places = np.flatnonzero(good)
    borders = delimiters[good[owners]].reshape(len(places), count - 1)
    begins = np.column_stack([start[good], borders + 1])
    ends = np.column_stack([borders, end[good]])
    spans = tuple((begins[:, at].copy(), ends[:, at].copy()) for at in range(count))
    return Records(dialect, data, places, spans, quotes), reasons


def field_texts(records: Records, column: int, name: str, faults: dict[int, str]) -> tuple[pa.Array, Flags]:
    """Return the texts of a column without their quotes, and which fields are quoted.

    Adds fields that are not well-formed to `faults`, by the number of the record.
    """
    start, end = records.spans[column]
    mark, escape = records.dialect.quote, records.dialect.escape
    data = records.data
    count = np.searchsorted(records.quotes, end) - np.searchsorted(records.quotes, start)
    last = np.maximum(end - 1, start)
    is_quoted: Flags = (end - start >= 2) & (data[start] == ord(mark)) & (data[last] == ord(mark)) & (count >= 2)
    if escape is not None:
        closed = np.isin(last, records.quotes)
        is_quoted &= closed
    texts, wrong = as_text(binary_of(data, (start + is_quoted, end - is_quoted)))
    if wrong is not None:
        add_faults(faults, wrong, f"field {name}: not UTF-8")
    bare = ~is_quoted
    if escape is None:
        add_faults(faults, bare & (count > 0), f"field {name}: a quote, and the field is not quoted as a whole")
    else:
        has_quote = flags(pc.match_substring(texts, mark))
        add_faults(
            faults, (bare & has_quote) | (count > 2), f"field {name}: a quote, and the field is not quoted as a whole"
        )
    return _unescaped(texts, is_quoted, count, records.dialect, name, faults), is_quoted


def _unescaped(
    texts: pa.Array, is_quoted: Flags, count: Ints, dialect: Dialect, name: str, faults: dict[int, str]
) -> pa.Array:
    if dialect.escape is not None:
        escaped = is_quoted & flags(pc.match_substring(texts, dialect.escape))
        if not escaped.any():
            return texts
        pattern = f"(?s)\\x{ord(dialect.escape):02x}(.)"
        return pc.if_else(pa.array(escaped), pc.replace_substring_regex(texts, pattern, r"\1"), texts)
    doubled = is_quoted & (count > 2)
    if not doubled.any():
        return texts
    mark = dialect.quote
    left = flags(pc.match_substring(pc.replace_substring(texts, mark * 2, ""), mark))
    add_faults(faults, doubled & left, f"field {name}: a quote inside of quotes is not doubled")
    return pc.if_else(pa.array(doubled), pc.replace_substring(texts, mark * 2, mark), texts)


def _without_line_end(data: Bytes, start: Ints, end: Ints) -> Ints:
    """Return the ends of values without the line end that a value may end with."""
    has_lf = (end > start) & (data[end - 1] == _LF)
    end = end - has_lf
    found: Ints = end - (has_lf & (end > start) & (data[end - 1] == _CR))
    return found


def _escaped(data: Bytes, places: Ints, escape: int, start: Ints) -> Flags:
    """Return which places are behind an odd number of escape characters of the same value."""
    marks = np.flatnonzero(data == escape)
    if len(marks) == 0:
        return np.zeros(len(places), np.bool_)
    begins = np.concatenate(([True], np.diff(marks) != 1)) | np.isin(marks, start)
    first = np.maximum.accumulate(np.where(begins, np.arange(len(marks)), 0))
    is_odd = (np.arange(len(marks)) - first) % 2 == 0
    last = np.concatenate((begins[1:], [True]))
    escaped: Flags = np.isin(places, marks[is_odd & last] + 1) & ~np.isin(places, start)
    return escaped
