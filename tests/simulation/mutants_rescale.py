"""Mutants of a rescale: which batch Spark, head and another process take for one (R2)."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.coordinator import Patch
from tests.simulation.mutant import RESCALE, Mutant

_REWRITE = """    answer = yield from messages.RescaleState(owned.head, number, partitions)
"""
_DECIDE = "    record = yield from _decide(owned, sinks, retained, answer, partitions, direct=direct)\n"

RESCALE_MUTANTS: dict[str, Mutant] = {
    "a start goes on from a rescale that has not ended": Mutant(
        RESCALE,
        "a start goes on from a rescale",
        (Patch("verify", "    if unfinished is not None and not rescales:\n", "    if False:\n"),),
    ),
    "a rescale is not decided": Mutant(
        RESCALE,
        "",
        (Patch("rescale", '        yield from owned.swap(Complete(record, put.ref), "decide")\n', ""),),
    ),
    "head decides before Spark knows": Mutant(
        RESCALE,
        "",
        (
            Patch("rescale", _REWRITE, '    answer: Any = StateRescaled(f"v1 batch {number}", 0.0, 1.0)\n'),
            Patch("rescale", _DECIDE, _DECIDE + _REWRITE),
            Patch("rescale", "from dataclasses", "from typing import Any\nfrom dataclasses"),
        ),
    ),
    "a plan is written over another's": Mutant(
        replace(RESCALE, drivers=2, rescales=1), "Spark does not", broken="a plan is written over another's"
    ),
    "a plan is taken back though Spark has committed it": Mutant(
        RESCALE,
        "",
        (Patch("rescale", "    if done or partitions != before:\n", "    if partitions != before:\n"),),
        broken="a plan is taken back though Spark has committed it",
    ),
}
