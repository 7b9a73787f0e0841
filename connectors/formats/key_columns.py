"""Records whose keys have a format: the columns of the value, and behind them the columns of the key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.api.decoding import (
    CheckedFormat,
    Decoded,
    Format,
    KeyedFormat,
    NamedSchemas,
    SelfDescribingFormat,
    Undecodable,
)
from connectors.formats.spans import Flags
from eos.errors import SpecError

OF_KEY: Final = "the record's key: "
"""In front of the reason why a key does not decode."""
_NAME: Final = "key "
"""In front of the name of a key's schema: two registries may use one number (H35)."""
_NO_ROW: Final = f"{OF_KEY}it describes no row"


@dataclass(frozen=True)
class KeyColumns:
    """The format of values and the format of keys. A record is bad if its value or its key does not decode.

    Both are always decoded whole, so a record is bad or not for each choice of columns (R4). A record without a key has
    NULL in the columns of the key. It is bad if one of them is NOT NULL. A record without a value is judged by the
    format of the values.

    Raises SpecError if a format decodes keys and values together, or if two columns have one name.
    """

    values: Format
    keys: Format
    prefix: str  # of the names of the key's columns

    def __post_init__(self) -> None:
        for part, each in (("format", self.values), ("key_format", self.keys)):
            if isinstance(each, (KeyedFormat, SelfDescribingFormat)):
                message = f"a {part} that reads keys and values together cannot be combined with another format"
                raise SpecError(message, remedy="leave out key_format: the format reads the keys itself")
        names = {name.lower(): name for name in self.values.schema.names}
        taken = [name for name in self._key_fields.names if name.lower() in names]
        if taken:
            message = f"the column {taken[0]} of the key is a column of the value, too: {names[taken[0].lower()]}"
            raise SpecError(message, remedy="give another key_prefix, such as key_prefix: key_")

    @cached_property
    def _key_fields(self) -> pa.Schema:
        return pa.schema([field.with_name(self.prefix + field.name) for field in self.keys.schema])

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the value, then the columns of the key with the prefix in front of their names."""
        return pa.schema([*self.values.schema, *self._key_fields])

    @property
    def names_schemas(self) -> bool:
        """Whether values or keys name their schemas."""
        return _names_schemas(self.values) or _names_schemas(self.keys)

    def with_schemas(self, known: Mapping[str, str]) -> KeyColumns:
        """Return this format with pinned schemas. See NamedSchemas."""
        of_keys = {name.removeprefix(_NAME): each for name, each in known.items() if name.startswith(_NAME)}
        of_values = {name: each for name, each in known.items() if not name.startswith(_NAME)}
        return replace(self, values=_pinned(self.values, of_values), keys=_pinned(self.keys, of_keys))

    def check(self) -> Sequence[Finding]:
        """Return the findings of both formats for `eos doctor`."""
        found = [each.check() for each in (self.values, self.keys) if isinstance(each, CheckedFormat)]
        keys = [replace(each, check=f"keys: {each.check}") for each in found[1]] if len(found) == 2 else []
        return [*(found[0] if found else ()), *keys]

    def decode(self, values: pa.Array) -> Decoded:
        """Decode records without keys."""
        return self.decode_records(pa.nulls(len(values), pa.binary()), values)

    def decode_records(self, keys: pa.Array, values: pa.Array) -> Decoded:
        """Decode all values of a batch, and all keys. Blocks as the two formats do."""
        of_values = self.values.decode(values)
        reasons, key_rows, has_row, schemas = self._decode_keys(keys)
        omitted = frozenset(of_values.omitted)
        bad = {each.index: each.reason for each in of_values.bad}
        for at, reason in reasons.items():
            if at not in omitted:
                bad[at] = f"{bad[at]}; {reason}" if at in bad else reason
        is_value_row = _without(len(values), [*(each.index for each in of_values.bad), *omitted])
        kept = is_value_row & has_row
        rows, records = of_values.rows, of_values.record_indices(len(values))
        chosen = kept[records]
        if not chosen.all():
            rows, records = rows.filter(pa.array(chosen)), records[chosen]
        if not (kept.all() and of_values.records is None):
            key_rows = key_rows.take(pa.array((np.cumsum(has_row) - 1)[records]))
        columns = [*rows.columns, *key_rows.columns]
        undecodable = tuple(Undecodable(at, bad[at]) for at in sorted(bad))
        joined = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        numbers = None if of_values.records is None else pa.array(records, pa.int64())
        return Decoded(joined, undecodable, {**of_values.schemas, **schemas}, of_values.omitted, numbers)

    def _decode_keys(self, keys: pa.Array) -> tuple[dict[int, str], pa.RecordBatch, Flags, dict[str, str]]:
        """Return the reasons of bad keys, the rows of the others, which keys have a row, and the schemas of keys."""
        given = keys.is_valid().to_numpy(zero_copy_only=False)
        places = np.flatnonzero(given)
        decoded = self.keys.decode(keys if len(places) == len(keys) else keys.filter(pa.array(given)))
        reasons = {int(places[each.index]): OF_KEY + each.reason for each in decoded.bad}
        reasons |= dict.fromkeys(places[list(decoded.omitted)].tolist(), _NO_ROW)
        rows = decoded.rows
        if len(places) < len(keys):
            never_null = [field.name for field in self._key_fields if not field.nullable]
            if never_null:
                reason = f"{OF_KEY}the record has no key, and {never_null[0]} is NOT NULL"
                reasons |= dict.fromkeys(np.flatnonzero(~given).tolist(), reason)
            else:
                rows = _spread(rows, given[_without(len(keys), reasons)])
        has_row = _without(len(keys), reasons)
        schemas = {_NAME + name: each for name, each in decoded.schemas.items()}
        return reasons, rows, has_row, schemas


def _without(count: int, places: Sequence[int] | Mapping[int, str]) -> Flags:
    """Return true for each of `count` records, and false for the records at these places."""
    found = np.ones(count, np.bool_)
    found[list(places)] = False
    return found


def _spread(rows: pa.RecordBatch, has_row: Flags) -> pa.RecordBatch:
    """Return the rows in their order where `has_row` is true, and rows of NULLs elsewhere."""
    places = np.cumsum(has_row) - 1
    taken = pa.array(places, mask=~has_row)
    columns = [column.take(taken) for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _names_schemas(each: Format) -> bool:
    return isinstance(each, NamedSchemas) and each.names_schemas


def _pinned(each: Format, known: Mapping[str, str]) -> Format:
    return each.with_schemas(known) if isinstance(each, NamedSchemas) and each.names_schemas else each
