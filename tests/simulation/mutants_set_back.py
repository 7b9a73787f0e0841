"""Mutants of the rules for stores that go back in time: a sink (H26, H27), and the head register (H29)."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.coordinator import Patch
from tests.simulation.mutant import (
    HEAD_SET_BACK,
    HEAD_SET_BACK_TWICE,
    HEAD_SET_BACK_UNDER_A_RESET,
    LOG_AFTER_AT_LEAST_ONCE,
    RESCALE_AFTER_AT_LEAST_ONCE,
    SET_BACK,
    SET_BACK_AMONG_TWO,
    SET_BACK_UNDER_A_REPAIR,
    SET_BACK_UNDER_A_RESET,
    THEN_AT_LEAST_ONCE,
    TWO,
    Mutant,
)

_CONTINUES = """            if not self.continues(known, seen):
                raise head_set_back(known.head, seen)
            if found:
"""

_NO_COUNT = Patch(
    "startup",
    ", counted=compared.counted)\n    yield from replace(claim, sinks=owned.present)\n"
    "    owned.note_counted(compared.counted)\n",
    ")\n    yield from replace(claim, sinks=owned.present)\n",
)

SET_BACK_MUTANTS: dict[str, Mutant] = {
    "a start asks for the newest checkpoint alone (H26)": Mutant(
        SET_BACK,
        "",
        (Patch("startup", "    behind = find_set_back(counted, inspected.sinks)\n", "    behind = {}\n"), _NO_COUNT),
    ),
    "a start rolls back what head calls committed (H27)": Mutant(
        SET_BACK, "", (Patch("startup", "    for record in compared.missing:", "    for record in ():"), _NO_COUNT)
    ),
    "a start rolls back without asking the records (H27)": Mutant(
        SET_BACK_AMONG_TWO,
        "rolled back, and decided",
        (Patch("startup", "    yield from check_undecided(head, leftovers)\n", ""),),
    ),
    "a claim rolls back without a look at the count (H27)": Mutant(
        SET_BACK_AMONG_TWO, "rolled back, and decided", broken="a claim does not compare the count"
    ),
    "a permit does not compare the count (H26)": Mutant(
        SET_BACK, "decided over a hole", broken="a permit does not compare the count"
    ),
    "a count moves without a look at the witnesses (H26)": Mutant(
        SET_BACK, "", broken="a count moves without a look at the witnesses"
    ),
    "a close rolls back without a look at the count (H27)": Mutant(
        SET_BACK, "rolled back, and decided", broken="a close does not compare the count"
    ),
    "a close rolls back what is decided (H27)": Mutant(
        SET_BACK,
        "rolled back, and decided",
        (
            Patch(
                "checkpoint",
                "            raise SetBackError.of(sink, scope.checkpoint_id - 1, scope.checkpoint_id)\n",
                "            pass\n",
            ),
        ),
    ),
    "a reset rolls back what head calls committed (H27)": Mutant(
        SET_BACK_UNDER_A_RESET,
        "rolled back, and decided",
        (Patch("ending", "        if not names:\n            continue\n", "        continue\n"),),
    ),
    "a reset claims without a look at the count (H27)": Mutant(
        SET_BACK_UNDER_A_RESET,
        "rolled back, and decided",
        (Patch("ending", "begins=begins, counted=counts)", "begins=begins)"),),
    ),
    "a reset rolls back without asking the records (H27)": Mutant(
        SET_BACK_UNDER_A_RESET,
        "rolled back, and decided",
        (Patch("ending", "    yield from check_undecided(old, asked)\n", ""),),
    ),
    "a reset does not count what it commits (H27)": Mutant(
        SET_BACK_UNDER_A_RESET,
        "rolled back, and decided",
        (Patch("commits", "    if whole:\n", "    if False:\n"),),
    ),
    "a reset takes over what is prepared (H27)": Mutant(
        SET_BACK_UNDER_A_RESET, "rolled back, and decided", broken="a take-over ends what is prepared"
    ),
    "a repair leaves to head what a sink has lost (H31)": Mutant(
        SET_BACK_UNDER_A_REPAIR, "", (Patch("repair", "    if compared.missing:", "    if False:"),)
    ),
    "a repair claims without a look at the count (H31)": Mutant(
        SET_BACK_UNDER_A_REPAIR,
        "rolled back, and decided",
        (Patch("repair", "begins=owned.head.committed, counted=counts)", "begins=owned.head.committed)"),),
    ),
    "a repair claims before it commits what is prepared (H31)": Mutant(
        SET_BACK_UNDER_A_REPAIR,
        "lost: sink0 neither holds nor shows",
        (
            Patch(
                "repair",
                "            yield from _commit_prepared(owned, ref, preparing, counts)\n",
                "            pass\n",
            ),
        ),
    ),
    "a repair does not count what it commits (H31)": Mutant(
        SET_BACK_UNDER_A_REPAIR,
        "rolled back, and decided",
        (Patch("commits", "    if whole:\n", "    if False:\n"),),
    ),
    "a reset compares the count of a sink that another incarnation has (H27)": Mutant(
        HEAD_SET_BACK_UNDER_A_RESET,
        "a reset alone ends as 'set back'",
        (Patch("ending", "if _is_claimed(old, each) and each.counted is not None", "if each.counted is not None"),),
    ),
    "a reset has a sink count that was never claimed": Mutant(
        SET_BACK_UNDER_A_RESET,
        "",
        (
            Patch(
                "ending",
                "    begins = _first(old) if is_new_to_one else old.committed\n",
                "    begins = old.committed\n",
            ),
        ),
    ),
    "at-least-once lets go of the record that a sink has counted (H34)": Mutant(
        THEN_AT_LEAST_ONCE, "rolled back, and decided", (Patch("transitions", " or r == counted)", ")"),)
    ),
    "a count wants the at-least-once checkpoint before (H34)": Mutant(
        RESCALE_AFTER_AT_LEAST_ONCE,
        "ends as 'set back'",
        (Patch("commits", "checkpoint_id, committables, known)", "checkpoint_id, committables)"),),
    ),
    "a slot wants the at-least-once checkpoint before (H34)": Mutant(
        LOG_AFTER_AT_LEAST_ONCE,
        "",
        (Patch("commits", "            known=_known(owned, checkpoint_id, waiting),\n", ""),),
    ),
    "what is left of an aborted try is kept where at-least-once came after (H34)": Mutant(
        replace(THEN_AT_LEAST_ONCE, evicts=False),
        "a refused start has changed something",
        (Patch("set_back", "            if record is None and number > newest:\n", "            if False:\n"),),
    ),
    "a sink is said to have gone back without a look at head (H12)": Mutant(
        TWO, "went back in time, and it did not", (Patch("commits", "        yield from check_owned(owned)\n", ""),)
    ),
    "a swap compares the version alone (H29)": Mutant(
        HEAD_SET_BACK_TWICE, "landed on another history", broken="a swap compares the version alone"
    ),
    "an older head is merged onto (H29)": Mutant(
        HEAD_SET_BACK,
        "wrote on without its own swaps",
        (Patch("ownership", _CONTINUES, "            if found:\n"),),
    ),
    "a start does not look again at the sinks (H29)": Mutant(
        HEAD_SET_BACK_TWICE,
        "doubled",
        (Patch("startup", "    yield from check_nothing_beyond(owned, owned.present)\n", ""),),
    ),
}
