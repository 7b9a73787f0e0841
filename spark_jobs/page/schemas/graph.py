"""The graph of a pipeline: its sources, steps and sinks."""

from __future__ import annotations

from typing import Literal

from spark_jobs.page.schemas.base import Answer

NodeKind = Literal["source", "step", "sink", "dead-letter", "job"]


class Node(Answer):
    """A source, step or sink. `job` stands for the query of a job of the user's own."""

    name: str
    kind: NodeKind
    about: str  # connector and place, or the kind of a step
    rows: int | None  # of the newest checkpoint: records of a source, rows of a sink
    behind: int | None  # lag of a source in records; checkpoints that a sink has not committed


class Edge(Answer):
    """Rows from one node to another. A dead letter may also be a row that a sink refused."""

    source: str
    target: str
    rows: int | None  # of the newest checkpoint; None: not counted


class Graph(Answer):
    """Nodes in the order of the spec."""

    nodes: list[Node]
    edges: list[Edge]
    checkpoint_id: int | None  # the newest completed checkpoint, which the rows are of; None: none is completed
    decided_at: float | None
