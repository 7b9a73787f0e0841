"""Mutants of starts while a sink with a log is away (H32)."""

from __future__ import annotations

from tests.simulation.coordinator import Patch
from tests.simulation.mutant import ABSENT, Mutant

_CLAIM = (
    "    yield from messages.Claim(\n"
    "        head.incarnation, head.epoch, begins=head.committed, counted={sink: counted}, sinks=(sink,)\n"
    "    )\n"
)

AWAY_MUTANTS: dict[str, Mutant] = {
    "a sink joins without a claim (H32)": Mutant(ABSENT, "", (Patch("joining", _CLAIM, ""),)),
    "head calls committed what an absent sink lacks (H32)": Mutant(
        ABSENT, "calls checkpoint", (Patch("startup", " and not owned.away:  # said last", ":  # said last"),)
    ),
    "a start forgets what waits for an absent sink (H32)": Mutant(
        ABSENT,
        "went back in time",
        (Patch("startup", "                owned.waiting = (*owned.waiting, record)\n", "                pass\n"),),
    ),
    "a sink joins, and what older epochs have left stays (H32)": Mutant(
        ABSENT,
        "",
        (Patch("joining", "    yield from abort_leftovers(owned.head, (sink,), runs=True)\n", "    yield from ()\n"),),
    ),
}
