"""Reads Spark's logical plans through Py4J: which columns of a source are used, and whether there is state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

_STATEFUL: Final = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "Distinct",
        "Except",  # the optimizer makes this one and Intersect an aggregation, which append mode alone refuses
        "FlatMapGroupsWithState",
        "FlatMapGroupsInPandasWithState",
        "GlobalLimit",
        "Intersect",
        "TransformWithState",
        "TransformWithStateInPySpark",
        "TransformWithStateInPandas",
    }
)


_WITH_TIME_MODE: Final = frozenset({"TransformWithState", "TransformWithStateInPySpark", "TransformWithStateInPandas"})

_GROUPED: Final = frozenset(
    {
        "CoGroup",
        "FlatMapCoGroupsInArrow",
        "FlatMapCoGroupsInPandas",
        "FlatMapGroupsInArrow",
        "FlatMapGroupsInPandas",
        "MapGroups",
    }
)
"""Spark lets these group each batch's rows by themselves."""


def is_stateful(frame: DataFrame) -> bool:
    """Whether a step keeps state from batch to batch, so that a replayed batch must run again (R4)."""
    return is_stateful_plan(_analyzed(frame))


def is_stateful_plan(plan: Any) -> bool:
    """The same for an analyzed plan of Spark's."""
    return any(_state_nodes(plan))


def new_state(before: DataFrame, after: DataFrame, output_mode: str) -> str:
    """Why a step that made `after` of `before` needs more than one batch's rows; empty if it does not."""
    added = Counter(_state_nodes(_analyzed(after))) - Counter(_state_nodes(_analyzed(before)))
    if added:
        return f"it keeps state ({', '.join(sorted(added))})"
    grouped = Counter(_grouped_nodes(_analyzed(after))) - Counter(_grouped_nodes(_analyzed(before)))
    if grouped:
        return f"it groups rows ({', '.join(sorted(grouped))})"
    # What is no streaming step at all, such as a sort or a window, would be done to each batch by itself.
    return "" if _refusal(before, output_mode) else _refusal(after, output_mode)


def adds_expiring_state(before: Iterable[DataFrame], after: DataFrame) -> bool:
    """Return whether a step from `before` to `after` has state whose variables may have a TTL.

    Spark accepts a TTL only in a `transformWithState` with the time mode "ProcessingTime".
    """
    return _expiring(after) > sum(map(_expiring, before))


def _expiring(frame: DataFrame) -> int:
    nodes = (node for node in _nodes(_analyzed(frame)) if node.getClass().getSimpleName() in _WITH_TIME_MODE)
    return sum("ProcessingTime" in str(node.timeMode().toString()) for node in nodes)


def unrepeatable(before: DataFrame, after: DataFrame) -> str:
    """Why a step that made `after` of `before` may give other rows when a batch runs again; empty if it does not."""
    old, new = _analyzed(before), _analyzed(after)
    jvm: Any = after.sparkSession.sparkContext._jvm
    current = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    if new.containsPattern(current) and not old.containsPattern(current):
        return "it asks for the current time"
    return "it is not deterministic" if old.deterministic() and not new.deterministic() else ""


def is_deterministic(frame: DataFrame) -> bool:
    """Whether Spark knows of nothing in it that gives other rows when it is run again, but for the current time."""
    return bool(_analyzed(frame).deterministic())


def _refusal(frame: DataFrame, output_mode: str) -> str:
    """What Spark has against it as a streaming query; it says so itself when the query is started."""
    jvm: Any = frame.sparkSession.sparkContext._jvm
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, output_mode.capitalize())()
    try:
        checker.checkForStreaming(_analyzed(frame), mode)
    except AnalysisException as error:
        return str(error).splitlines()[0]
    return ""


def _grouped_nodes(plan: Any) -> Iterator[str]:
    return (name for node in _nodes(plan) if (name := node.getClass().getSimpleName()) in _GROUPED)


def _state_nodes(plan: Any) -> Iterator[str]:
    for node in _nodes(plan):
        yield from _state_node(node)


def _state_node(node: Any) -> Iterator[str]:
    """Its name, if it keeps state."""
    name = node.getClass().getSimpleName()
    streaming_join = name == "Join" and all(child.isStreaming() for child in _children(node))
    if (name in _STATEFUL or streaming_join) and node.isStreaming():
        yield name


def state_operators(frame: DataFrame, step: str) -> list[tuple[str, str, str]]:
    """Every operator that keeps state, in the order in which Spark numbers them: its step, its kind and what it keeps.

    Spark numbers them from the sink to the sources. Steps read each other as views, which stand in the plan.
    `step`: whose rows the frame has.
    """
    return list(_operators(_analyzed(frame), step))


def _operators(plan: Any, step: str) -> Iterator[tuple[str, str, str]]:
    name = plan.getClass().getSimpleName()
    if name == "View":
        step = str(plan.desc().identifier().table())
    for kind in _state_node(plan):
        yield step, kind, _kept_types(plan)
    for child in _children(plan):
        yield from _operators(child, step)


def _kept_types(plan: Any) -> str:
    """Types of the keys and of what is kept for each, as far as the logical plan tells."""
    match plan.getClass().getSimpleName():
        case "Aggregate":
            keys, kept = _types(plan.groupingExpressions()), _functions(plan.aggregateExpressions())
        case "Distinct":
            keys, kept = _types(plan.output()), []
        case "Deduplicate" | "DeduplicateWithinWatermark":
            keys, kept = _types(plan.keys()), []
        case "Join":
            keys, kept = [str(plan.joinType().sql())], []
        case "FlatMapGroupsWithState" | "TransformWithState":
            keys, kept = _types(plan.groupingAttributes()), []
        case _:
            keys, kept = [], []
    return f"{', '.join(keys)}: {', '.join(kept)}" if kept else ", ".join(keys)


def _types(expressions: Any) -> list[str]:
    return [str(each.dataType().simpleString()) for each in _items(expressions)]


def _functions(expressions: Any) -> list[str]:
    found = []
    for expression in _items(expressions):
        for node in _nodes(expression):
            if node.getClass().getSimpleName() == "AggregateExpression":
                function = node.aggregateFunction()
                inputs = ", ".join(_types(function.children()))
                found.append(f"{function.prettyName()}({inputs})")
    return found


def used_columns(spark: SparkSession, frame: DataFrame, available: list[str]) -> list[str]:
    """Which of a source's columns the frame needs, in their order: what is not needed is not built in the reader."""
    optimized = spark._jsparkSession.sessionState().optimizer().execute(_analyzed(frame))
    used: set[str] = set()
    for node in _nodes(optimized):
        for child in _children(node):
            if not list(_children(child)):
                attributes = node.references() if node.getClass().getSimpleName() == "Project" else child.outputSet()
                used.update(attribute.name() for attribute in _items(attributes))
    return [name for name in available if name in used] or available[:1]


def streaming_leaves(frame: DataFrame) -> list[str]:
    """The names of the streaming sources that a frame reads, as often as Spark would read them."""
    leaves = {
        node.hashCode(): node for node in _nodes(_analyzed(frame)) if node.isStreaming() and node.children().isEmpty()
    }
    return [leaf.sourceName() for leaf in leaves.values()]


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _children(plan):
        yield from _nodes(child)


def _children(plan: Any) -> Iterator[Any]:
    return _items(plan.children())


def _items(collection: Any) -> Iterator[Any]:
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()
