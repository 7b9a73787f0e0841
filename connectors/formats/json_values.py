"""JSON objects of a given schema, parsed by Arrow a whole batch at a time.

The values are joined by newlines and parsed once. That one value gives exactly one row, and never a piece of its
neighbour's, follows from four facts:

1. Every value that gets that far begins with `{` and ends with `}` (`_check_shape`).
2. A string cannot reach across the join, for a raw newline inside a string is not JSON.
3. An object cannot either: after the `}` that ends a value only `,`, `}` or `]` could go on with one, and the
   next value begins with `{`. So every join lies between two documents, and every value holds one document or more.
4. The number of rows equals the number of values, so that every value holds one.

If anything is amiss (an error, a count, a value that does not fit), the values at fault are found one by one
(`decode.sieve`, `json_judge`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from connectors.api.decoding import Decoded
from connectors.formats import wire
from connectors.formats.decode import sieve
from connectors.formats.fine_numbers import check_decimals
from connectors.formats.json_judge import Broken, Judge, Unfit
from connectors.formats.json_maps import has_maps, rewrite_maps
from connectors.formats.json_place import json_place
from connectors.formats.plain import NOT_UTF8, texts_of, utf8_reason
from connectors.formats.spans import Ints
from connectors.spark_types import spark_type_of_name
from eos.bounded import shorten

_WHITESPACE = " \t\n\r"  # what JSON calls white space, and nothing else
_NO_FIELDS = pa.schema([])
_TOMBSTONE = b"{}"  # a null value reads as an object without fields: a row of nulls, as Spark's from_json gives


@dataclass(frozen=True)
class JsonFormat:
    """One JSON object per value. Fields that the schema does not name are ignored; missing ones are null.

    Bad records, never silent nulls, cut or rounded: other types than the schema's, numbers out of range, more decimals
    than the type has, a schema's field given twice, NaN, a null where the schema says NOT NULL, invalid UTF-8, several
    documents in one value. Timestamps are ISO 8601 with at most six decimals, in UTC unless they name a zone; dates
    are `YYYY-MM-DD`; decimals are numbers or strings, and never pass through a double; binary is base64.
    """

    schema: pa.Schema

    def __post_init__(self) -> None:
        wire.check(self.schema)

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a batch. The cost is one parse, unless something in it is bad."""
        return sieve(values, self.schema, lambda part: _parse(part, self.schema), self._judge, Explainer(self.schema))

    def _judge(self) -> Callable[[pa.Array], list[object | None]]:
        judge = Judge(self.schema)

        def faults(values: pa.Array) -> list[object | None]:
            return [judge.fault(text) if isinstance(text, str) else text for text in texts_of(values)]

        return faults


class Explainer:
    """Says in Arrow's words what is wrong with one value. Of one column."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._told: dict[Unfit, str] = {}

    def __call__(self, values: pa.Array, answer: object) -> str:
        """`answer`: the judge's, or what parsing the value has raised."""
        match answer:
            case Broken(reason) if reason is not None:
                return _placed(_reason(ValueError(reason), None), values)
            case Unfit(_, kind) if kind is not None:
                if answer not in self._told:
                    self._told[answer] = self._of_column(values, answer.column)
                return self._told[answer]
            case Unfit(column):
                return self._of_column(values, column)
            case ValueError():
                return self._searched(values, answer)
        if answer is NOT_UTF8:
            return utf8_reason(values[0].as_py())
        return self._refused(values) if isinstance(answer, Broken) else self._searched(values)

    def _of_column(self, values: pa.Array, column: str) -> str:
        field = self._schema.field(column)
        reason = _reason(_fault(values, pa.schema([field])) or ValueError("unknown"), column)
        return reason.replace("expected array", "expected object") if pa.types.is_map(field.type) else reason

    def _refused(self, values: pa.Array, error: ValueError | None = None) -> str:
        """Return the parser's words for the whole value."""
        error = error or _fault(values, self._schema) or ValueError("unknown")
        return _placed(_reason(error, None), values)

    def _searched(self, values: pa.Array, error: ValueError | None = None) -> str:
        """Name the field at fault, by parsing the one value again for no field and then for each."""
        if error is not None and _NOT_UTF8 in str(error):
            return utf8_reason(values[0].as_py())
        if _fault(values, _NO_FIELDS) is None:
            for field in self._schema:
                fault = _fault(values, pa.schema([field]))
                if fault is not None:
                    return _reason(fault, field.name)
        return self._refused(values, error)


def _placed(reason: str, values: pa.Array) -> str:
    """Return the reason, with the place in the one value where it stops being JSON."""
    text = (values[0].as_py() or b"").decode(errors="replace")
    place = json_place(text) if text.strip() else ""
    return f"{reason.removesuffix('.')}, {place}" if place else reason


def _fault(values: pa.Array, schema: pa.Schema) -> ValueError | None:
    try:
        _parse(values, schema)
    except ValueError as error:
        return error
    return None


def _parse(values: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    """One row per value, or ValueError."""
    values = values.fill_null(_TOMBSTONE)
    _check_shape(values)
    text = _join(values)
    check_decimals(values, text, schema)
    if len(values) and any(has_maps(kind) for kind in schema.types):
        text = rewrite_maps(text, _ends(values), schema)
    table = pj.read_json(
        pa.BufferReader(text),
        # One block, so that a newline inside a value is white space like any other and never a place to cut.
        read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=pj.ParseOptions(explicit_schema=wire.parsed(schema), unexpected_field_behavior="ignore"),
    )
    if len(table) != len(values):
        raise ValueError("more than one JSON document in a value")
    if len(schema) == 0:
        return pa.RecordBatch.from_pylist([])
    return wire.fitted(table.combine_chunks().to_batches()[0], schema)


def _check_shape(values: pa.Array) -> None:
    """Every value is UTF-8, begins with `{` and ends with `}`, leaving white space aside."""
    text = values.cast(pa.string())  # validates, copies nothing
    if not _is_braced(text):
        text = pc.utf8_trim(text, characters=_WHITESPACE)
        if pc.any(pc.equal(pc.binary_length(text), 0)).as_py():
            raise ValueError("empty value")
        if not _is_braced(text):
            raise ValueError("not a JSON object")


def _is_braced(text: pa.Array) -> bool:
    return bool(pc.all(pc.and_(pc.starts_with(text, "{"), pc.ends_with(text, "}"))).as_py())


def _join(values: pa.Array) -> bytes:
    offsets = pa.array([0, len(values)], pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, values), b"\n")
    text: bytes = joined[0].as_buffer().to_pybytes() + b"\n"
    if b"\0" in text:  # the parser takes it for the end of the text
        raise ValueError("a raw NUL byte is not JSON")
    return text


def _ends(values: pa.Array) -> Ints:
    """Return where each value ends in the joined text."""
    lengths = pc.binary_length(values).to_numpy(zero_copy_only=False).astype(np.int64)
    ends: Ints = np.cumsum(lengths + 1) - 1
    return ends


_NOT_UTF8 = "Invalid UTF8"
_TYPE_CHANGE = re.compile(r"Column\(/?(.*)\) changed from (\w+) to (\w+)")
_TWICE = re.compile(r"Column\(/?(.*)\) was specified twice")
_SCALE = re.compile(r"Failed to convert JSON to decimal\d+\(.*?\): (.*)", re.DOTALL)
_UNPARSED = re.compile(r"Failed to convert JSON to (.*?)(?:\[.*\])?, couldn't parse:(.*)", re.DOTALL)


def _reason(error: ValueError, field: str | None) -> str:
    """Arrow's message in the reader's words: no row numbers, which mean nothing outside."""
    text = re.sub(r" in row \d+$", "", shorten(str(error))).removeprefix("JSON parse error: ")
    if match := _TYPE_CHANGE.match(text):
        return f"field {match[1]}: expected {match[2]}, found {match[3]}" if match[1] else "not a JSON object"
    if match := _TWICE.match(text):
        return f"field {match[1]} is given twice"
    if match := _SCALE.match(text):
        text = match[1]
    if match := _UNPARSED.match(text):
        text = f"{match[2][:40]!r} does not fit {spark_type_of_name(match[1])}"
    return f"field {field}: {text}" if field else f"not valid JSON: {text}"
