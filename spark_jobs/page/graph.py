"""The graph of a pipeline: sources, steps and sinks, with the rows that the newest checkpoint moved between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from connectors.spec import PythonStep, Spec
from spark_jobs.observe.history.model import Detail
from spark_jobs.page import facts, schemas
from spark_jobs.page.pipeline_view import PipelineView
from twophase.positions import total

JOB: Final = "your query"
"""The node that stands for the rows of a job of the user's own, whose spec has no sources."""


@dataclass(frozen=True, slots=True)
class _Counts:
    """Rows of one checkpoint."""

    records: Mapping[str, int | None]  # by source
    rows: Mapping[str, int]  # by sink
    lag: Mapping[str, int | None]  # by source


def graph(watched: PipelineView) -> schemas.Graph:
    """Return the graph. Spark counts no rows between two steps: such an edge has none."""
    history = watched.history
    newest = next(iter(history.checkpoints(1)), None)
    found = history.checkpoint(newest.checkpoint_id, newest.incarnation) if newest is not None else None
    counts = _counts(found) if found is not None else _Counts({}, {}, {})
    backlog = {each.name: each.backlog_checkpoints for each in facts.sinks(watched).sinks}
    return schemas.Graph(
        nodes=list(_nodes(watched.spec, counts, backlog)),
        edges=list(_edges(watched.spec, counts)),
        checkpoint_id=newest.checkpoint_id if newest is not None else None,
        decided_at=newest.decided_at if newest is not None else None,
    )


def _counts(found: Detail) -> _Counts:
    lag: dict[str, list[int | None]] = {}
    for each in found.lag:
        lag.setdefault(each.source, []).append(each.records)
    return _Counts(
        {source: total(each.records for each in ranges) for source, ranges in found.ranges.items()},
        Counter({each.sink: each.rows for each in found.checkpoint.sinks}),
        {source: total(each) for source, each in lag.items()},
    )


def _nodes(spec: Spec, counts: _Counts, backlog: Mapping[str, int]) -> Iterator[schemas.Node]:
    if not spec.sources:
        yield schemas.Node(name=JOB, kind="job", about="", rows=None, behind=None)
    for source in spec.sources:
        records, behind = counts.records.get(source.name), counts.lag.get(source.name)
        about = f"{source.connector}: {source.where}"
        yield schemas.Node(name=source.name, kind="source", about=about, rows=records, behind=behind)
    for step in spec.transforms:
        about = f"Python: {step.python}" if isinstance(step, PythonStep) else "SQL"
        yield schemas.Node(name=step.name, kind="step", about=about, rows=None, behind=None)
    for sink in spec.outputs:
        yield schemas.Node(
            name=sink.name,
            kind="dead-letter" if sink is spec.dead_letter else "sink",
            about=f"{sink.connector}: {sink.where}",
            rows=counts.rows.get(sink.name),
            behind=backlog.get(sink.name),
        )


def _edges(spec: Spec, counts: _Counts) -> Iterator[schemas.Edge]:
    for name, inputs in spec.inputs.items():
        for each in inputs:
            yield schemas.Edge(source=each, target=name, rows=counts.records.get(each))
    for sink in spec.sinks:
        yield schemas.Edge(source=sink.from_ or JOB, target=sink.name, rows=counts.rows.get(sink.name))
    if spec.dead_letter is not None:
        rejecting = [source.name for source in spec.sources if source.on_bad_record == "dead-letter"]
        rows = counts.rows.get(spec.dead_letter.name) if len(rejecting) == 1 else None  # of several, nothing says whose
        for name in rejecting:
            yield schemas.Edge(source=name, target=spec.dead_letter.name, rows=rows)
