"""Columns of a frame as the sink's writers get them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame

from connectors.spark_types import quoted
from eos.errors import SpecError
from spark_jobs.batch.writing import HASH_COLUMN

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def selected(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """These columns: the frame itself where it has no others, since each further step looks at the whole query."""
    return frame if frame.columns == names else frame.select(*map(quoted, names))


def numbered(frame: DataFrame) -> DataFrame:
    """The same columns under plain names: Spark's `mapInArrow` looks names up unquoted, and fails for a backtick.

    Names that are plain stay, for the same reason.
    """
    names = frame.columns
    if all(map(_PLAIN.fullmatch, names)) and len({name.lower() for name in names}) == len(names):
        return frame
    return frame.toDF(*(f"c{number}" for number in range(len(names))))


def check_hashable(frame: DataFrame) -> None:
    """Raise SpecError for rows that R4 cannot compare: Spark hashes them in a column of its own, and hashes no map."""
    for column in frame.schema.fields:
        if "map<" in column.dataType.simpleString() or column.name.startswith(HASH_COLUMN):
            message = f"column {column.name} ({column.dataType.simpleString()}) cannot be a row of a stateful pipeline"
            raise SpecError(message, remedy="turn a map into JSON with to_json(), and name no column _eos_hash")
