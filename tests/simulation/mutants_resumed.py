"""Mutants of the rules for a machine that is restored from a snapshot with its memory (H33)."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.coordinator import Patch
from tests.simulation.mutant import MEMORY, RESUMED, RESUMED_AFTER_A_RESCALE, RESUMED_LOG, Mutant

RESUMED_MUTANTS: dict[str, Mutant] = {
    "a permit does not look for its checkpoint (H33)": Mutant(
        RESUMED, "doubled", broken="a permit does not look for its checkpoint"
    ),
    "a task does not look for its run (H33)": Mutant(
        RESUMED, "doubled", broken="a task does not look at the witnesses"
    ),
    "a nonce is given out again (H33)": Mutant(
        replace(RESUMED, resumes="memory"),
        "lost: sink0 neither holds nor shows",
        (Patch("ownership", "{self.swaps}-{drawn}", "{self.swaps}"),),
    ),
    "ids of tasks are given out again (H33)": Mutant(
        RESUMED_LOG, "was decided with other rows than sink0 shows", broken="ids are given out again"
    ),
    "a log does not look how far it is (H33)": Mutant(
        RESUMED_LOG, "lost: Spark calls checkpoint", broken="a log does not look how far it is"
    ),
    "an aborted try takes in later ones (H33)": Mutant(
        MEMORY,
        "lost: sink0 neither holds nor shows",
        (Patch("checkpoint", " and other.attempt <= scope.attempt", ""),),
    ),
    "a start does not compare the count with what is completed (H33)": Mutant(
        RESUMED_AFTER_A_RESCALE,
        "a driver alone ends as 'set back'",
        (Patch("verify", "sink.counted > head.completed:", "False:"),),
    ),
}
