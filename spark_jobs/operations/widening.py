"""State of an operator whose integers have become wider: rewritten by Spark's State Rewriter (SPARK-54924).

The rewriter reads each row of state as bytes, lets a function change them, and writes them under the columns of a new
query. A row is an UnsafeRow: a bit for each column that is NULL, in words of eight bytes; then eight bytes for each
column, which hold an integer in their first bytes. So a wider integer takes no more room: its sign is repeated.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import ByteType, DataType, IntegerType, LongType, ShortType, StructType

from eos.errors import PrepareError
from spark_jobs.operations.trial import as_snapshots
from spark_jobs.query.state_files import Ids, state_ids
from spark_jobs.session.failures import translate

_WIDTHS: Final[Mapping[type[DataType], int]] = {ByteType: 1, ShortType: 2, IntegerType: 4, LongType: 8}
_OPERATORS: Final = frozenset({"stateStoreSave", "dedupe", "dedupeWithinWatermark"})
"""Operators with one store of such rows, as Spark calls them."""
_WORD: Final = 8
_REST: Final = 2**31 - 1
_KEY: Final = "eos_key"

Wider = Mapping[int, tuple[int, int]]
"""Place of a column -> bytes of its integer in the savepoint, and now."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of one operator's state."""

    keys: StructType
    values: StructType


@dataclass(frozen=True, slots=True)
class Widening:
    """A change of the rows of one operator's state."""

    keys: Wider
    values: Wider
    columns: Columns  # of the new query

    @property
    def changes_rows(self) -> bool:
        """Whether a row has other bytes than before: an aggregate may read wider integers and keep the same."""
        return bool(self.keys or self.values)


def widening(spark_folder: Path, number: int, trial: Path, new_number: int) -> Widening | str:
    """Return the change of an operator's rows; or the reason why there cannot be one, for people.

    Args:
        spark_folder: Spark's folder with the state.
        number: of the operator in it.
        trial: Spark's folder of a trial of the new query.
        new_number: of the operator in that.
    """
    operator = _name(trial, new_number)
    if operator not in _OPERATORS or operator != _name(spark_folder, number):
        return f"state of Spark's operator {operator} cannot be rewritten"
    then, now = _columns(spark_folder, number), _columns(trial, new_number)
    if then is None or now is None:
        return "Spark describes the columns of the state in a form that this version does not read"
    keys, values = wider(then.keys, now.keys), wider(then.values, now.values)
    if keys is None or values is None:
        return "the state has other columns or another order of them, or its integers have become narrower"
    return Widening(keys, values, now)


def wider(then: StructType, now: StructType) -> Wider | None:
    """Return the integer columns that have become wider; None where anything else differs but names.

    Nor may they have changed places: each would get another one's values.
    """
    if len(then) != len(now) or (then.names != now.names and sorted(then.names) == sorted(now.names)):
        return None
    found = {}
    for place, (old, new) in enumerate(zip(then, now, strict=True)):
        if old.dataType == new.dataType:
            continue
        before, after = _WIDTHS.get(type(old.dataType), 0), _WIDTHS.get(type(new.dataType), 0)
        if not 0 < before < after:
            return None
        found[place] = (before, after)
    return found


def columns_of(content: bytes) -> Columns | None:
    """Return the content of Spark's `_metadata/schema` of a store; None for another version than 2.

    It is Java's: texts with their length in two bytes, and before a text of several parts their number in four.
    """
    version, rest = _text(content)
    if version != "v2":
        return None
    found = []
    for _ in ("keys", "values"):
        (parts,), rest = struct.unpack_from(">i", rest), rest[4:]
        whole = ""
        for _ in range(parts):
            part, rest = _text(rest)
            whole += part
        found.append(StructType.fromJson(json.loads(whole, object_hook=_without_classes)))
    return Columns(*found)


def _without_classes(part: dict[str, Any]) -> dict[str, Any]:
    """Return this part of a schema. Raises ValueError for a type that is a class, which PySpark would import."""
    if part.get("type") == "udt":
        message = f"{part.get('pyClass')} is a class"
        raise ValueError(message)
    return part


def rewrite(spark: SparkSession, source: Path, target: Path, checkpoint_id: int, number: int, change: Widening) -> Ids:
    """Have Spark write the state of an operator with wider integers; return the ids of the new state.

    Reads and writes all of it.

    Args:
        spark: a session that runs no query.
        source: Spark's folder with the state after this checkpoint, under the numbers of the new query.
        target: a folder with `offsets/N` and with the descriptions of this operator's state, and of no other's.
        checkpoint_id: N.
        number: of the operator.
        change: of its rows.

    Raises PrepareError where Spark fails, SparkUnavailableError where Spark has ended.
    """
    gateway: Any = spark.sparkContext._gateway
    jvm: Any = spark.sparkContext._jvm
    session: Any = spark._jsparkSession
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    option, doing = jvm.scala.Option, "rewriting the state for wider types"
    partitions = len(state_ids((source / "commits" / str(checkpoint_id)).read_text())[str(number)])
    try:
        with as_snapshots(spark):
            written = jvm.org.apache.spark.sql.execution.streaming.state.StateRewriter(
                session,
                checkpoint_id,
                checkpoint_id,
                f"file:{target}",
                session.sessionState().newHadoopConf(),
                option.apply(f"file:{source}"),
                option.apply(_Rows(spark, change, partitions)),
                option.empty(),
            ).run()
        ids = _by_operator(written.get())
    except (PySparkException, Py4JError) as error:
        raise translate(error, doing) from error
    if list(ids) != [str(number)] or len(ids[str(number)]) != partitions:
        raise PrepareError(f"{doing} failed: Spark has written operators {', '.join(ids)} and not {number}")
    return ids


def _by_operator(written: Any) -> Ids:
    found, entries = {}, written.iterator()
    while entries.hasNext():
        entry = entries.next()
        found[str(entry._1())] = [[str(each) for each in stores] for stores in entry._2()]
    return found


class _Rows:
    """Scala's function that changes the rows of state. Their columns stay."""

    def __init__(self, spark: SparkSession, change: Widening, partitions: int) -> None:
        self._spark = spark
        self._change = change
        self._partitions = partitions

    def apply(self, frame: Any) -> Any:
        change = self._change
        rows = DataFrame(frame, self._spark)
        key, columns = functions.col("partition_key").cast(change.columns.keys), rows.columns
        rows = rows.withColumn(
            _KEY, key
        )  # Spark finds the partition of a key by the hash of its columns, types included
        rows = rows.withColumn("key_bytes", widened("key_bytes", len(change.columns.keys), change.keys))
        rows = rows.withColumn("value_bytes", widened("value_bytes", len(change.columns.values), change.values))
        return rows.repartition(self._partitions, _KEY).select(*columns)._jdf

    class Java:
        """For Py4J."""

        implements: Final = ["scala.Function1"]


def widened(name: str, columns: int, wider: Wider) -> Column:
    """Return the expression of a row's bytes with wider integers.

    Args:
        name: of the column with the bytes.
        columns: how many the row has.
        wider: which of them change. A NULL has zeros in its place, and keeps them.
    """
    row = functions.col(name)
    first = _WORD * ((columns + 63) // 64)
    for place, (before, after) in sorted(wider.items()):
        end = first + _WORD * place + before
        is_negative = row.substr(end, 1) >= functions.lit(b"\x80")  # the highest byte is the last
        more = after - before
        sign = functions.when(is_negative, functions.lit(b"\xff" * more)).otherwise(functions.lit(bytes(more)))
        row = functions.concat(row.substr(1, end), sign, row.substr(end + more + 1, _REST))
    return row


def _name(spark_folder: Path, number: int) -> str:
    """Return how Spark calls an operator; empty where its description is of another kind."""
    path = spark_folder / "state" / str(number) / "_metadata" / "metadata"
    try:
        _, _, text = path.read_text().partition("\n")
        return str(json.loads(text)["operatorInfo"]["operatorName"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _columns(spark_folder: Path, number: int) -> Columns | None:
    try:
        return columns_of((spark_folder / "state" / str(number) / "0" / "_metadata" / "schema").read_bytes())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error):
        return None


def _text(content: bytes) -> tuple[str, bytes]:
    (size,) = struct.unpack_from(">H", content)
    return content[2 : 2 + size].decode(errors="surrogatepass"), content[2 + size :]
