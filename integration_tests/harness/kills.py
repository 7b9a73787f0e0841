"""Where a pipeline is killed, and what the outside world must see at that moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline


@dataclass(frozen=True, slots=True)
class Kill:
    """Where a life ends, and what the outside world must see at that moment."""

    stem: str
    checkpoints: float  # visible in the sink; a half: some of the rows of the next one, not all
    prepared: tuple[int, ...]  # how many branches may be prepared


def kill_at(pipeline: Pipeline, *stems: str) -> None:
    """A life of the driver for each: it is stopped there, and killed."""
    for stem in stems:
        process = pipeline.start(arm=[stem])
        process.await_point(stem)
        process.kill()


def kill_at_each(pipeline: Pipeline, kills: Iterable[Kill]) -> None:
    """A life of the driver for each: it is stopped there, looked at from outside, and killed."""
    for kill in kills:
        process = pipeline.start(arm=[kill.stem])
        process.await_point(kill.stem)
        assert_seen(pipeline, kill)
        process.kill()


def assert_seen(pipeline: Pipeline, kill: Kill) -> None:
    """Nothing is visible before the decision, and nothing but whole transactions after it (R6)."""
    verdict = pipeline.verdict()
    assert verdict.clean, f"{kill}: {verdict}"
    assert verdict.in_sink == kill.checkpoints * CHECKPOINT_RECORDS, f"{kill}: {verdict}"
    prepared = pipeline.prepared()
    assert len(prepared) in kill.prepared, f"{kill}: {prepared}"
