"""Expectations of a batch: the counts of its decided attempt, their limits, and the dead letters of failed rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, functions

from connectors.control_characters import escapes
from connectors.dead_letter_names import STEP
from connectors.dead_letters import RECORD
from connectors.spark_types import quoted
from connectors.spec import TransformStep
from eos.errors import ExpectationError
from spark_jobs.observe.history.model import RuleCount
from spark_jobs.query.expectations import (
    Outcome,
    Rows,
    broken_rules,
    outcome,
    row_json,
    unique_columns,
    watched,
    watched_rows,
)
from spark_jobs.query.running_query import observed_metrics
from spark_jobs.session.arrow import from_arrow

_REMEDY: Final = "correct the producer, the step or the condition; or choose another action or a higher max_failed"
_ESCAPES: Final = escapes()
_OF_ROW: Final = {"topic": "_topic", "partition": "_partition", "offset": "_offset", "timestamp": "_timestamp"}


@dataclass(slots=True)
class RuleChecks:
    """Counts of one attempt of a batch. Created for each attempt, so an aborted attempt leaves nothing behind."""

    steps: Sequence[TransformStep]  # with rules, in the spec's order
    _found: dict[str, Outcome] = field(default_factory=dict, init=False)

    def read(self, batch: DataFrame, job: DataFrame) -> None:
        """Read the counts of a job of this batch that has ended. The first counts of a step are kept.

        Rows that several branches need are computed in a job of their own. A later job that computes lost rows
        once more counts only these.
        """
        if not self.steps:
            return
        for metrics in (observed_metrics(batch), job._jdf.queryExecution().observedMetrics()):
            for step in self.steps:
                found = outcome(step, metrics)
                if found is not None and (step.name not in self._found or not self._found[step.name].rows):
                    self._found[step.name] = found

    def counts(self) -> tuple[RuleCount, ...]:
        """Return the counts of every rule whose step was part of the batch."""
        return tuple(
            RuleCount(step.name, rule.name, rule.action, self._found[step.name].rows, failed)
            for step in self.steps
            if step.name in self._found
            for rule, failed in zip(step.expect, self._found[step.name].failed, strict=True)
        )

    def surplus(self, checkpoint_id: int) -> ExpectationError | None:
        """Return the reason why the checkpoint must not be decided: a rule has more failed rows than it allows."""
        for step in self.steps:
            found = self._found.get(step.name)
            if found is None:
                continue
            for rule, failed, example in zip(step.expect, found.failed, found.examples, strict=True):
                if rule.allows(failed, found.rows):
                    continue
                limit = "" if rule.action == "fail" else f", more than max_failed ({rule.max_failed}) allows"
                message = f"checkpoint {checkpoint_id}: {failed:,} of {found.rows:,} rows of step {step.name} fail the "
                message += f"expectation {rule.name}{limit}"
                shown = f"; one of them: {example.translate(_ESCAPES)}" if example else ""
                return ExpectationError(message + shown, remedy=_REMEDY)
        return None

    def rejected(self) -> dict[str, Rows]:
        """Return the rows of this batch that become dead letters by a rule, by step, without steps that have none."""
        return {name: each.rejected for name, each in self._found.items() if each.rejected.count}


def letters_of(steps: Sequence[TransformStep], rejected: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows that rules reject, in the columns of dead_letters.RECORD.

    `rejected`: by step, see `apply_steps`. A letter has its row as JSON, and the place of its record if the row has it.
    """
    return reduce(DataFrame.union, (_letters(step, rejected[step.name]) for step in steps if step.name in rejected))


def _letters(step: TransformStep, rows: DataFrame) -> DataFrame:
    unique = unique_columns(rows)
    known: dict[str, Column] = {
        "sink": functions.lit(STEP + step.name),
        "value": functions.encode(row_json(rows), "UTF-8"),
        "error": functions.concat(
            functions.lit(f"the row of step {step.name} fails the expectation "), broken_rules(step)
        ),
    }
    of_row = {name: functions.col(quoted(column)) for name, column in _OF_ROW.items() if column in unique}
    if "_key" in unique:
        of_row["key"] = functions.col(quoted("_key"))
    columns = []
    for column in from_arrow(RECORD):
        if column.name in of_row:
            found = of_row[column.name].try_cast(column.dataType)
        else:
            found = known.get(column.name, functions.lit(None)).cast(column.dataType)
        columns.append(found.alias(column.name))
    return watched(step, rows).select(*columns)


def unlike(steps: Sequence[TransformStep], rejected: Mapping[str, Rows], job: DataFrame) -> str:
    """Return a step of which a job, now ended, has computed other rejected rows than these; empty if all agree.

    The rows that pass are of the first computation, and the dead letters of the second. Where they differ, one row
    could be in both, and another in neither.
    """
    metrics = job._jdf.queryExecution().observedMetrics()
    rejecting = (step for step in steps if step.rejects_rows)
    return next((s.name for s in rejecting if watched_rows(s, metrics) != rejected.get(s.name, Rows())), "")
