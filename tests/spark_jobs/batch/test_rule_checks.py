"""Counts of a batch's rules: which job's counts stand, and when a checkpoint must not be decided by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from connectors.spec import Expectation, SqlStep
from eos.errors import ExpectationError
from spark_jobs.batch import rule_checks as module
from spark_jobs.batch.rule_checks import RuleChecks
from spark_jobs.observe.history.model import RuleCount
from spark_jobs.query.expectations import Rows


@dataclass
class _Row:
    """A row of Spark's."""

    values: Sequence[object]

    def size(self) -> int:
        return len(self.values)

    def getLong(self, at: int) -> object:  # noqa: N802 Spark's name
        return self.values[at]

    getString = getDecimal = getLong  # noqa: N815 Spark's name

    def isNullAt(self, at: int) -> bool:  # noqa: N802 Spark's name
        return self.values[at] is None


@dataclass
class _Metrics:
    """Spark's map of observed metrics: name -> rows, rejected and their digest, failed by rule, examples."""

    found: Mapping[str, Sequence[object]]

    def get(self, name: str) -> Any:
        row = self.found.get(name.removeprefix("expectations of "))
        return SimpleNamespace(isDefined=lambda: row is not None, get=lambda: _Row(row or ()))


def _job(**found: Sequence[object]) -> Any:
    execution = SimpleNamespace(observedMetrics=lambda: _Metrics(found))
    return SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: execution))


@pytest.fixture(autouse=True)
def query(monkeypatch: pytest.MonkeyPatch) -> dict[str, Sequence[object]]:
    """What the query's own part of the batch has counted."""
    found: dict[str, Sequence[object]] = {}
    monkeypatch.setattr(module, "observed_metrics", lambda _batch: _Metrics(found))
    return found


def _step(name: str, *rules: tuple[str, str, object]) -> SqlStep:
    expect = [
        Expectation.model_validate({"name": rule, "condition": "x > 0", "action": action, "max_failed": most})
        for rule, action, most in rules
    ]
    return SqlStep.model_construct(name=name, sql="", watermark=None, output_mode="append", expect=expect)


def _read(checks: RuleChecks, *jobs: Any) -> RuleChecks:
    for job in jobs:
        checks.read(cast(Any, None), job)
    return checks


def test_counts_of_the_query_and_of_steps_behind_it(query: dict[str, Sequence[object]]) -> None:
    steps = [_step("a", ("r", "warn", None), ("s", "skip", None)), _step("b", ("r", "dead-letter", None)), _step("c")]
    query["a"] = [10, 0, None, 3, 2]
    checks = _read(RuleChecks(steps), _job(b=[8, 1, 17, 1]))
    assert checks.counts() == (
        RuleCount("a", "r", "warn", 10, 3),
        RuleCount("a", "s", "skip", 10, 2),
        RuleCount("b", "r", "dead-letter", 8, 1),
    )
    assert checks.rejected() == {"b": Rows(1, 17)}


def test_a_later_job_that_computes_lost_rows_again_changes_no_count() -> None:
    """Spark reports the newest job of a step: of rows that an executor has lost, that is a part."""
    checks = RuleChecks([_step("a", ("r", "warn", None))])
    assert (
        _read(checks, _job(a=[0, 0, None, 0]), _job(a=[10, 0, None, 3]), _job(a=[4, 0, None, 1])).counts()[0].failed
        == 3
    )


def test_a_step_that_no_sink_reads_counts_nothing() -> None:
    checks = _read(RuleChecks([_step("a", ("r", "fail", None))]), _job())
    assert (checks.counts(), checks.surplus(7), checks.rejected()) == ((), None, {})


@pytest.mark.parametrize(
    ("rule", "found", "message"),
    [
        (
            ("r", "fail", None),
            [1200, 0, None, 1, '{"id":7,"x":"\x1b[0m"}'],
            'checkpoint 7: 1 of 1,200 rows of step a fail the expectation r; one of them: {"id":7,"x":"\\x1b[0m"}',
        ),
        (
            ("r", "skip", 5),
            [1200, 0, None, 6],
            "checkpoint 7: 6 of 1,200 rows of step a fail the expectation r, more than max_failed (5) allows",
        ),
        (("r", "warn", "1%"), [200, 0, None, 2], ""),
        (
            ("r", "warn", "1%"),
            [200, 0, None, 3],
            "checkpoint 7: 3 of 200 rows of step a fail the expectation r, more than max_failed (1%) allows",
        ),
    ],
)
def test_too_many_failed_rows_stop_the_checkpoint(
    rule: tuple[str, str, object], found: Sequence[object], message: str
) -> None:
    surplus = _read(RuleChecks([_step("a", rule)]), _job(a=found)).surplus(7)
    assert (surplus.message if surplus is not None else "") == message
    if surplus is not None:
        assert isinstance(surplus, ExpectationError)
        assert not surplus.retriable
