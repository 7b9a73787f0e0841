"""The format `csv`: each value is one record of fields, in the order of the columns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.api.decoding import Decoded
from connectors.formats.casting import add_faults, flags
from connectors.formats.csv.fields import Dialect, field_texts, split_records
from connectors.formats.csv.texts import check, column_of
from connectors.formats.outcome import Outcome
from connectors.spark_types import spark_type
from eos.bounded import shorten


@dataclass(frozen=True)
class CsvFormat:
    """Records of RFC 4180, without a header. A value may end with a line end, and quoted fields may have some.

    Bad is a record with another number of fields, with quotes that do not fit, or with a text that does not fit its
    column exactly. A value is judged without its neighbours.
    """

    schema: pa.Schema
    dialect: Dialect = field(default_factory=Dialect)
    null: str = ""  # text of a NULL, where it is not quoted

    def __post_init__(self) -> None:
        check(self.schema)

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a batch, column by column."""
        outcome = Outcome(self.schema)
        values, given = outcome.take_tombstones(values)
        records, reasons = split_records(values, len(self.schema), self.dialect)
        outcome.reject_each(given, reasons)
        faults: dict[int, str] = {}
        columns = []
        for at, each in enumerate(self.schema):
            texts, is_quoted = field_texts(records, at, each.name, faults)
            is_null = pc.and_(pc.equal(texts, self.null), pa.array(~is_quoted))
            texts = pc.if_else(is_null, pa.scalar(None, pa.string()), texts)
            column, wrong = column_of(texts, each.type)
            for row in np.flatnonzero(wrong).tolist():
                faults.setdefault(row, f"field {each.name}: {_shown(texts[row])} does not fit {spark_type(each.type)}")
            if not each.nullable:
                add_faults(faults, flags(is_null), f"field {each.name}: NULL, and the column is NOT NULL")
            columns.append(column)
        outcome.add(given[records.places], pa.RecordBatch.from_arrays(columns, schema=self.schema), faults)
        return outcome.decoded()


def _shown(text: pa.Scalar) -> str:
    return repr(shorten(text.as_py() or "")[:40])
