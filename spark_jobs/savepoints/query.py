"""The plan of a query, from Spark's."""

from __future__ import annotations

from pyspark.sql import DataFrame

from connectors.spec import Spec
from spark_jobs.query.plan import state_operators, streaming_leaves
from spark_jobs.query.source import format_name
from spark_jobs.savepoints.plan import Operator, Plan, describe


def plan_of(spec: Spec, rows: DataFrame) -> Plan:
    """Of a pipeline's roots."""
    by_format = {format_name(source): source.name for source in spec.sources}
    sources = tuple(by_format[leaf] for leaf in streaming_leaves(rows))
    first = spec.roots[0]  # the trunk; several roots are views, whose names the plan has
    operators = tuple(Operator(*each) for each in state_operators(rows, first))
    return Plan(sources, operators, describe(spec), spec.text)
