"""Mutants of the rules for a head register that goes back in time (H29)."""

from __future__ import annotations

from tests.simulation.coordinator import Patch
from tests.simulation.mutant import HEAD_SET_BACK, HEAD_SET_BACK_TWICE, Mutant

_CONTINUES = """            if not self.continues(known, seen):
                raise head_set_back(known.head, seen)
            if found:
"""

HEAD_MUTANTS: dict[str, Mutant] = {
    "a swap compares the version alone (H29)": Mutant(
        HEAD_SET_BACK_TWICE, "landed on another history", broken="a swap compares the version alone"
    ),
    "an older head is merged onto (H29)": Mutant(
        HEAD_SET_BACK,
        "wrote on without its own swaps",
        (Patch("ownership", _CONTINUES, "            if found:\n"),),
    ),
    "a start does not look again at the sinks (H29)": Mutant(
        HEAD_SET_BACK_TWICE, "doubled", (Patch("startup", "    yield from _check_nothing_beyond(owned)\n", ""),)
    ),
}
