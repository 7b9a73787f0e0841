"""The rules of a step (`expect`), as columns: Spark counts the rows that fail while the rows pass.

A row meets a rule if the condition is true. The counts arrive with the results of the successful tasks, before the job
is over. Spark keeps the counts of the last attempt of each task, so a retried task counts once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession, functions

from connectors.spark_types import quoted
from connectors.spec import Expectation, TransformStep
from connectors.spec.expectations import DEAD_LETTER
from eos.errors import SpecError
from spark_jobs.query.one_query import NoQueryError, check_query
from spark_jobs.query.plan import unrepeatable

_MOST_CHARS: Final = 500
_SUBQUERIES: Final = frozenset({"ScalarSubquery", "Exists", "ListQuery", "InSubquery", "LateralSubquery"})


@dataclass(frozen=True, slots=True)
class Rows:
    """Number and digest of rows: another computation has given the same rows if both are equal."""

    count: int = 0
    digest: int = 0  # the sum of the hashes of the rows' JSON


@dataclass(frozen=True, slots=True)
class Outcome:
    """Counts of one step in one batch."""

    rows: int  # that the step gave, before any of them was left out
    failed: tuple[int, ...]  # by rule
    rejected: Rows  # rows that become dead letters, each once, whatever number of rules it fails
    examples: tuple[str, ...]  # by rule, a row that fails it as JSON; empty where none is kept


def with_rules(spark: SparkSession, step: TransformStep, frame: DataFrame, where: str) -> DataFrame:
    """Return the rows of a step, counted by its rules, except the rows that a rule with `skip` leaves out.

    Rows that become dead letters stay: see `passing`. Raises SpecError for a condition that Spark does not accept.
    """
    frame.createOrReplaceTempView(step.name)
    for number, rule in enumerate(step.expect):
        try:
            _check(spark, step, frame, rule)
        except (AnalysisException, ParseException, NoQueryError, _RefusedError) as error:
            reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
            message = f"{where}: expect[{number}] ({rule.name}): {reason}"
            remedy = f"write a condition over the columns of {step.name}: {', '.join(frame.columns)}"
            raise SpecError(message, remedy=remedy) from error
    counted = frame.observe(_observation(step), *_measures(step, frame))
    skipping = [_meets(rule) for rule in step.expect if rule.action == "skip"]
    if not skipping:
        return counted
    kept = reduce(and_, skipping)
    return counted.where(kept | ~_accepted(step) if step.rejects_rows else kept)


def passing(step: TransformStep, frame: DataFrame) -> DataFrame:
    """Return the rows of `with_rules` except the rows that become dead letters."""
    return frame.where(_accepted(step)) if step.rejects_rows else frame


def failing(step: TransformStep, frame: DataFrame) -> DataFrame:
    """Return the rows of `with_rules` that become dead letters."""
    return frame.where(~_accepted(step))


def unique_columns(frame: DataFrame) -> list[str]:
    """Return the columns that can be read by their names: Spark does not distinguish upper from lower case."""
    names = Counter(map(str.lower, frame.columns))
    return [name for name in frame.columns if names[name.lower()] == 1]


def row_json(frame: DataFrame) -> Column:
    """Return each row as JSON: the columns that can be read by their names."""
    return functions.to_json(functions.struct(*map(quoted, unique_columns(frame))), {"ignoreNullFields": "false"})


def watched(step: TransformStep, rejected: DataFrame) -> DataFrame:
    """Return the rows of `failing`, counted by Spark while they pass: see `watched_rows`."""
    return rejected.observe(_second_observation(step), *_rows_of(rejected, functions.lit(True)))


def watched_rows(step: TransformStep, metrics: Any) -> Rows:
    """Read the rows of `watched` from the observed metrics of the job that has computed them."""
    found = metrics.get(_second_observation(step))
    return _rows(found.get(), 0) if found.isDefined() else Rows()


def broken_rules(step: TransformStep) -> Column:
    """The names of the rules by which a row of `failing` is a dead letter."""
    names = [functions.when(~_meets(rule), functions.lit(rule.name)) for rule in _rejecting(step)]
    return functions.concat_ws(", ", *names)


def outcome(step: TransformStep, metrics: Any) -> Outcome | None:
    """Read a step's counts from the observed metrics of a query of Spark's; None if its plan has not the step."""
    found = metrics.get(_observation(step))
    if not found.isDefined():
        return None
    row, most = found.get(), len(step.expect) + 3
    failed = tuple(int(row.getLong(at)) for at in range(3, most))
    texts = iter([row.getString(at) or "" for at in range(most, row.size())])
    examples = (next(texts, "") if rule.action == "fail" else "" for rule in step.expect)
    return Outcome(int(row.getLong(0)), failed, _rows(row, 1), tuple(examples))


class _RefusedError(Exception):
    """A condition that needs more than a row. Its text is the reason."""


def _check(spark: SparkSession, step: TransformStep, frame: DataFrame, rule: Expectation) -> None:
    check_query(spark, f"SELECT * FROM `{step.name}` WHERE (\n{rule.condition}\n)")
    parsed = spark._jsparkSession.sessionState().sqlParser().parseExpression(rule.condition)
    if any(str(node.getClass().getSimpleName()) in _SUBQUERIES for node in _nodes(parsed)):
        message = "a condition reads one row; a subquery would read other rows"
        raise _RefusedError(message)
    if reason := unrepeatable(frame, frame.where(functions.expr(rule.condition))):
        message = f"{reason}: a row must meet a condition each time or never"
        raise _RefusedError(message)


def _nodes(expression: Any) -> Iterator[Any]:
    yield expression
    children = expression.children().iterator()
    while children.hasNext():
        yield from _nodes(children.next())


def _measures(step: TransformStep, frame: DataFrame) -> Iterator[Column]:
    one = functions.lit(1)
    yield functions.count(one).alias("rows")
    yield from _rows_of(frame, ~_accepted(step) if step.rejects_rows else functions.lit(False))
    for number, rule in enumerate(step.expect):
        yield functions.count(functions.when(~_meets(rule), one)).alias(f"failed_{number}")
    if len(unique_columns(frame)) < len(frame.columns):
        return
    row = functions.substring(functions.to_json(functions.struct(*map(quoted, frame.columns))), 1, _MOST_CHARS)
    for number, rule in enumerate(step.expect):
        if rule.action == "fail":
            yield functions.max(functions.when(~_meets(rule), row)).alias(f"example_{number}")


def _rows_of(frame: DataFrame, chosen: Column) -> Iterator[Column]:
    """The measures of `Rows`, of the chosen rows."""
    digest = functions.xxhash64(row_json(frame)).cast("decimal(20, 0)")
    yield functions.count(functions.when(chosen, functions.lit(1))).alias("rows_chosen")
    yield functions.sum(functions.when(chosen, digest)).alias("digest")


def _rows(row: Any, at: int) -> Rows:
    return Rows(int(row.getLong(at)), 0 if row.isNullAt(at + 1) else int(row.getDecimal(at + 1)))


def _meets(rule: Expectation) -> Column:
    return functions.coalesce(functions.expr(rule.condition), functions.lit(False))


def _rejecting(step: TransformStep) -> list[Expectation]:
    return [rule for rule in step.expect if rule.action == DEAD_LETTER]


def _accepted(step: TransformStep) -> Column:
    return reduce(and_, map(_meets, _rejecting(step)))


def _observation(step: TransformStep) -> str:
    """The name under which Spark reports the counts. No source has this one: a source's name has no blank."""
    return f"expectations of {step.name}"


def _second_observation(step: TransformStep) -> str:
    return f"dead letters of {step.name}"
