"""The documents of one table among all that a topic has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.casting import flags
from connectors.formats.json_images import name_column
from connectors.formats.json_values import JsonFormat
from connectors.formats.outcome import Outcome
from connectors.formats.spans import Flags, Ints

ENVELOPE: Final = (("database", pa.string()), ("table", pa.string()), ("type", pa.string()))
"""The fields that name the table of a document, and its kind of change."""

HasRows = Callable[[pa.RecordBatch, Ints, Outcome], Flags]
"""Return which documents of the table have rows, and add the others to the outcome. With the places of their records.

The batch has the columns of ENVELOPE and of `Documents.more`.
"""


@dataclass(frozen=True)
class Documents:
    """How the documents of a table are found and parsed. Other tables' documents are omitted with any content."""

    table: tuple[str, str]  # database and name
    more: tuple[tuple[str, pa.DataType], ...]  # further fields that decide whether a document has rows
    parts: tuple[tuple[str, pa.DataType], ...]  # fields with the rows

    def parse(self, values: pa.Array, places: Ints, has_rows: HasRows, outcome: Outcome) -> tuple[Ints, pa.RecordBatch]:
        """Return the documents with rows of the table. Adds the others to the outcome: omitted, or bad.

        `values`: a binary column without nulls. `places`: the indices of their records.
        """
        fields = [*ENVELOPE, *self.more]
        decoder = JsonFormat(pa.schema([*fields, *self.parts]))
        decoded = decoder.decode(values)
        good = decoded.record_indices(len(values))
        chosen = self._sorted_out(decoded.rows, places[good], has_rows, outcome)
        found, rows = places[good][chosen], decoded.rows.filter(pa.array(chosen))
        if decoded.bad:
            self._judge_bad(
                {each.index: each.reason for each in decoded.bad}, values, places, decoder, has_rows, outcome
            )
        return found, rows

    def _judge_bad(
        self,
        reasons: dict[int, str],
        values: pa.Array,
        places: Ints,
        decoder: JsonFormat,
        has_rows: HasRows,
        outcome: Outcome,
    ) -> None:
        """A document whose parts do not decode is bad only if it has rows of the table."""
        at = np.array(list(reasons), np.int64)
        envelope = JsonFormat(pa.schema([*ENVELOPE, *self.more])).decode(values.take(pa.array(at)))
        known = at[envelope.record_indices(len(at))]
        mine = known[self._sorted_out(envelope.rows, places[known], has_rows, outcome)]
        images = [name for name, kind in self.parts if pa.types.is_struct(kind)]
        for place in mine.tolist():
            outcome.bad[int(places[place])] = name_column(reasons[place], values, place, decoder, images)
        for each in envelope.bad:
            outcome.bad[int(places[at[each.index]])] = reasons[int(at[each.index])]

    def _sorted_out(self, rows: pa.RecordBatch, places: Ints, has_rows: HasRows, outcome: Outcome) -> Flags:
        """Return which documents have rows of the table. Adds the others to the outcome."""
        parts = dict(zip(rows.schema.names, rows.columns, strict=True))
        unknown = flags(parts["table"].is_null()) | flags(parts["database"].is_null()) | flags(parts["type"].is_null())
        outcome.reject(places[unknown], "no `database`, `table` or `type`: another kind of record")
        mine = ~unknown
        for name, wanted in zip(("database", "table"), self.table, strict=True):
            mine &= flags(pc.fill_null(pc.equal(parts[name], wanted), False))
        outcome.omit(places[~mine & ~unknown])
        found = np.zeros(len(rows), np.bool_)
        if mine.any():
            chosen = has_rows(rows.filter(pa.array(mine)), places[mine], outcome)
            found[np.flatnonzero(mine)[chosen]] = True
        return found


def omit_known(rows: pa.RecordBatch, places: Ints, known: Sequence[str], outcome: Outcome) -> None:
    """Add documents without rows to the outcome: omitted if their type is known, else bad."""
    types = rows.column("type")
    omitted = flags(pc.is_in(types, pa.array(known, pa.string())))
    outcome.omit(places[omitted])
    for place, name in zip(places[~omitted].tolist(), types.filter(pa.array(~omitted)).to_pylist(), strict=True):
        outcome.bad[place] = f"unknown type {name!r:.40}"
