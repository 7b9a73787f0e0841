"""The key `expect` of a step: conditions that its rows should meet."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Final, Literal

from pydantic import AfterValidator

from connectors.api.fields import NonEmpty, RecordLimit, StepName
from connectors.api.model import Strict, wrong
from connectors.spec.flow import without_code

Action = Literal["warn", "skip", "dead-letter", "fail"]

DEAD_LETTER: Final = "dead-letter"


def _plain_condition(sql: str) -> str:
    return without_code(sql, "a condition over the step's columns")


class Expectation(Strict):
    """One rule: a condition, and the action for rows that do not meet it."""

    name: StepName
    """The rule's name in counts, messages and metrics; unique in its step."""
    condition: Annotated[NonEmpty, AfterValidator(_plain_condition)]
    """Spark SQL over the step's columns, such as `amount > 0`. A row meets the rule if it is true: NULL is not."""
    action: Action = "warn"
    """Effect on a row that does not meet the condition. `warn`: keep and count it. `skip`: leave it out. `dead-letter`:
    write it to `dead_letter` instead. `fail`: stop the pipeline before the checkpoint is decided."""
    max_failed: RecordLimit | None = None
    """More such rows in one checkpoint stop the pipeline. A number, or a share of the step's rows, such as `5%`,
    rounded down."""

    def allows(self, failed: int, rows: int) -> bool:
        """Return whether a checkpoint may be decided with so many failed rows among the `rows` of the step."""
        if self.action == "fail":
            return failed == 0
        if self.max_failed is None or isinstance(self.max_failed, int):
            return self.max_failed is None or failed <= self.max_failed
        return failed * 100 <= rows * Fraction(self.max_failed.removesuffix("%"))


def _unique(rules: list[Expectation]) -> list[Expectation]:
    names = [rule.name.casefold() for rule in rules]
    if len(set(names)) < len(names):
        twice = next(rule.name for rule in rules if names.count(rule.name.casefold()) > 1)
        raise wrong(f"the rule '{twice}' is named twice", "a different name for each rule of a step")
    return rules


Expectations = Annotated[list[Expectation], AfterValidator(_unique)]
"""The rules of one step."""
