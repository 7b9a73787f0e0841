"""A checkpoint that somebody asks for: begun at once, and answered when what was there is committed everywhere."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from connectors.api.contracts import Horizon
from eos.errors import SourceError
from spark_jobs.observe.report import CheckpointReport
from spark_jobs.run.checkpoint_requests import CheckpointRequests
from tests.twophase_values import record
from twophase.head_value import HeadValue
from twophase.requests import Answer, Request
from twophase.values import StartingPoint


@dataclass
class _Run:
    """A run whose topic has so many records, of which so many are in checkpoints."""

    end: int = 10
    head: HeadValue = field(
        default_factory=lambda: HeadValue("p", "i", 1, (), initial={"s": {"t/0": 0}}, positions={"s": {"t/0": 0}})
    )
    begun: int = 0
    answers: list[Answer] = field(default_factory=list)
    away: bool = False
    name: str = "s"

    def __post_init__(self) -> None:
        self.requests = CheckpointRequests([cast(Any, self)], lambda _, answer: self.answers.append(answer))
        self.requests.follow(lambda: self.head, self.begin)

    def horizon(self, known: StartingPoint) -> Horizon:
        if self.away:
            raise SourceError("no answer")
        return Horizon({"t/0": self.end}, StartingPoint({}, {}))

    def begin(self) -> None:
        self.begun += 1

    def ask(self, patience_s: float = 60.0) -> Answer | None:
        now = time.time()
        return self.requests.ask(Request("1", "checkpoint", {}, now, now + patience_s, "somebody"))

    def complete(self, number: int, upto: int, *, committed: bool = True) -> None:
        """Spark's thread, and then the one that waits looks."""
        position = {"s": {"t/0": upto}}
        self.head = replace(self.head, completed=number, positions=position)
        self.head = replace(self.head, committed=number) if committed else self.head
        self.requests.on_checkpoint(CheckpointReport(record(number), 0, 1, False, 0.1, {}, None))
        self.requests.look()

    def numbers(self) -> list[object]:
        return [each.facts["checkpoint_id"] for each in self.answers]


def test_it_is_begun_at_once_and_answered_when_it_is_committed_everywhere() -> None:
    run = _Run()
    assert run.ask() is None
    assert run.begun == 1
    run.requests.look()
    run.complete(0, 10, committed=False)
    assert run.answers == []
    run.head = replace(run.head, committed=0)
    run.requests.look()
    run.requests.look()
    assert run.numbers() == [0]
    assert run.answers[0].ok


def test_one_that_was_under_way_counts_if_it_has_taken_all_that_was_there() -> None:
    run = _Run()
    run.ask()
    run.complete(0, 4)  # planned before the last six came
    assert run.answers == []
    assert run.begun == 2
    run.complete(1, 7)  # as much as a checkpoint takes
    assert run.numbers() == [1]


def test_nothing_to_read_is_said_at_once_or_when_the_rest_is_committed() -> None:
    run = _Run()
    run.complete(0, 10)
    run.ask()
    run.requests.look()
    assert run.numbers() == [None]
    run.end = 20
    run.complete(1, 20, committed=False)
    run.ask()
    run.requests.look()
    assert run.numbers() == [None], "a sink is behind"
    run.head = replace(run.head, committed=1)
    run.requests.look()
    assert run.numbers() == [None, None]
    assert run.begun == 0


def test_a_checkpoint_that_ends_while_the_source_is_asked_is_heard_of() -> None:
    run = _Run()
    asked = run.horizon

    def slow(known: StartingPoint) -> Horizon:
        run.complete(0, 10)
        return asked(known)

    run.horizon = slow  # type: ignore[method-assign]
    run.ask()
    run.requests.look()
    assert run.numbers() == [0]


def test_a_request_outlives_a_restart_and_ends_with_the_run() -> None:
    run = _Run()
    run.ask()
    run.requests.follow(None)
    run.requests.look()
    answer = run.ask()
    assert answer is not None
    assert not answer.ok
    run.requests.follow(lambda: run.head, run.begin)
    assert run.begun == 2
    run.requests.give_up("the run has ended")
    assert [each.ok for each in run.answers] == [False]
    run.requests.look()
    assert len(run.answers) == 1


def test_a_source_that_does_not_answer_before_the_request_is_out_of_date_is_told_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = _Run()

    def late(_known: StartingPoint) -> Horizon:
        run.requests.look()
        raise SourceError("no answer")

    monkeypatch.setattr(run, "horizon", late)
    with pytest.raises(SourceError):
        run.ask(patience_s=0.0)


def test_a_source_that_does_not_answer_is_told() -> None:
    run = _Run(away=True)
    with pytest.raises(SourceError):
        run.ask()
    run.complete(0, 10)
    assert run.answers == []
