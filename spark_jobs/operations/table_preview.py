"""The first rows of each table of a pipeline with several tables. Needs no Spark: tasks write rows as they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from connectors.api.contracts import Source
from connectors.api.table_rows import MultiTableSink, source_of_tables
from connectors.registry import build_sink, build_source
from connectors.spark_types import spark_type
from connectors.spec import Spec
from eos.errors import TargetError
from spark_jobs.operations.new_start import Wanted, resolve
from twophase.values import OffsetRange, StartingPoint

_RECORDS: Final = 20_000
"""That are read at most, an equal number of each split."""


@dataclass(slots=True)
class TablePreview:
    """The first rows with one schema, and of one table."""

    topic: str
    batches: list[pa.RecordBatch] = field(default_factory=list)
    names: Sequence[str] = ()  # of the columns that are written, in their order
    table: str = ""  # of the sink; empty: the sink was not queried, or `problem`
    problem: str = ""  # why a run could not write the rows; empty: it could

    @property
    def columns(self) -> Sequence[tuple[str, str]]:
        """Names and types of the columns that are written."""
        schema = self.batches[0].schema
        return [(name, spark_type(schema.field(name).type)) for name in self.names]

    @property
    def rows(self) -> Sequence[Mapping[str, object]]:
        """The rows, with the columns that are written."""
        found: list[dict[str, object]] = readable(pa.Table.from_batches(self.batches).select([*self.names])).to_pylist()
        return found


def preview_tables(
    spec: Spec, sink: str, count: int, wanted: Wanted | None, *, with_sink: bool
) -> Sequence[TablePreview]:
    """Return the first rows of each table, in the order of topics. Changes nothing.

    Args:
        spec: whose sinks have several tables.
        sink: whose rows are returned, by name.
        count: rows to return at most, of each schema.
        wanted: where to begin; None: at `starting_offsets`.
        with_sink: compare with the tables, as a run does.

    Raises SpecError, SinkUnavailableError and the sources' errors, as a run would.
    """
    entry = next(each for each in spec.sinks if each.name == sink)
    source = next(build_source(each) for each in spec.sources if each.name == entry.from_)
    target = build_sink(spec, entry)
    assert isinstance(target, MultiTableSink)
    source = source_of_tables(source, target.dry_run(source.schema))
    begins = {source.name: source.starting_point(StartingPoint())} if wanted is None else resolve(spec, wanted, None)[0]
    found: dict[tuple[str, bytes], TablePreview] = {}
    for batch in source.read(list(_ranges(source, begins[source.name]))):
        topic = batch.column("_topic")[0].as_py()
        for rows in target.rows_by_table(batch):
            seen = found.setdefault((topic, rows.schema.serialize().to_pybytes()), TablePreview(topic))
            missing = count - sum(map(len, seen.batches))
            if missing > 0:
                seen.batches.append(rows.slice(0, missing))
    for each in found.values():
        each.names = each.batches[0].schema.names
        if with_sink:
            _compare(target, each)
    return sorted(found.values(), key=lambda each: (each.topic, each.table))


def _ranges(source: Source, began: StartingPoint) -> Iterator[OffsetRange]:
    ends = source.horizon(began).ends
    splits = [split for split in sorted(ends) if split in began.positions]
    for split in splits:
        whole = OffsetRange(split, began.positions[split], ends[split])
        yield OffsetRange(split, whole.start, source.limit(whole, max(1, _RECORDS // len(splits))))


def _compare(target: MultiTableSink, found: TablePreview) -> None:
    try:
        found.table, found.names = target.dry_run_table(found.batches[0])
    except TargetError as error:
        found.problem = f"{error.message}; {error.remedy}"


def readable(table: pa.Table) -> pa.Table:
    """Return moments as text that Arrow writes: Python's own know no year beyond 9999."""
    for index, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            table = table.set_column(index, column.name, table.column(index).cast(pa.string()))
    return table
