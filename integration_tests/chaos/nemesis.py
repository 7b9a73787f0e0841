"""Does the faults, one after another and some at once, and measures how long the pipeline takes to recover."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from integration_tests.chaos.actions import ACTIONS
from integration_tests.chaos.arena import Arena
from integration_tests.chaos.plan import Fault
from integration_tests.chaos.progress import await_progress


@dataclass(frozen=True, slots=True)
class Done:
    """Faults of one time, and how long it took until a checkpoint was committed that ended after them."""

    faults: Sequence[Fault]  # that were seen to do what they are to do
    idle: Sequence[Fault]  # that did nothing
    recovery_s: float


def attack(arena: Arena, faults: Sequence[Sequence[Fault]], tell: Callable[[str], None]) -> Iterator[Done]:
    """Do all of them. Raises ChaosError where the pipeline does not recover, or goes on where it must not."""
    await_progress(arena, "the start")
    for some in faults:
        with ExitStack() as held:
            effects = []
            for fault in some:
                time.sleep(fault.pause_s)
                tell(f"{fault.kind} {fault.target}{f' for {fault.hold_s:g} s' if fault.hold_s else ''}")
                effects.append(held.enter_context(ACTIONS[fault.kind](arena, fault)))
            time.sleep(max(fault.hold_s for fault in some))
        ended_s = time.monotonic()
        await_progress(arena, " and ".join(fault.kind for fault in some))
        seen = [fault for fault, effect in zip(some, effects, strict=True) if effect.is_seen]
        yield Done(seen, [fault for fault in some if fault not in seen], time.monotonic() - ended_s)
