"""Mutants of a repair: what it takes for lost, whom it keeps from writing, and what it compares (R3, R4, R7)."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.config import Budget
from tests.simulation.coordinator import Patch
from tests.simulation.mutant import REPAIR, REPAIRS, Mutant

_COMMITS_FIRST = """        for ref in waiting:
            yield from _commit_prepared(owned, ref, preparing, counts)
"""
_CLAIM = (
    "        yield from messages.Claim("
    "owned.head.incarnation, owned.head.epoch, begins=owned.head.committed, counted=counts)\n"
)
_LOSS = "    loss = Loss(record, lost)\n"
_SWAP = '    yield from owned.swap(Repair(made, put.ref, ref), "repair")\n'
_SHOWN = """    yield from commit_and_count(owned, made)
    yield from close(owned.head, scope, made, counted=True)
"""
_OTHER_ROWS = replace(REPAIR, budget=Budget(vandals=1, drifts=1))

REPAIR_MUTANTS: dict[str, Mutant] = {
    "the sinks are claimed before what is decided is committed": Mutant(
        REPAIR, "neither holds nor shows", (Patch("repair", _COMMITS_FIRST, ""),)
    ),
    "the sinks are not claimed": Mutant(REPAIR, "is fenced", (Patch("repair", _CLAIM, ""),)),
    "a plain read of the witness, and the lost one's is not held": Mutant(
        replace(REPAIR, budget=Budget(switches=1, commits=1)),
        "ends as 'lost'",
        broken="plain read of the witness, and not held",
    ),
    "no permit, and the lost one's witness is not held": Mutant(REPAIRS, "leaves", broken="no permit, and not held"),
    "who holds the lost one's witness is waited for": Mutant(
        REPAIR, "waits for ever", broken="who holds a witness is waited for"
    ),
    "a repair takes other rows for those of the decision (R4)": Mutant(
        _OTHER_ROWS, "shows other rows", (Patch("repair", "if now.get(task) != then.get(task)]", "if False]"),)
    ),
    "with state a repair knows rows by their number alone (R4)": Mutant(
        replace(_OTHER_ROWS, stateful=True),
        "other rows",
        (Patch("repair", "(each.rows + each.refused, each.digest)", "(each.rows, 0)"),),
    ),
    "a pipeline whose steps keep state is not repaired (R7)": Mutant(
        replace(REPAIR, stateful=True),
        "a repair alone ends as",
        (
            Patch(
                "repair",
                _LOSS,
                f"{_LOSS}    if any(each.digest for _, each in loss.each):\n"
                '        raise _not_the_same(record, "steps keep state")\n',
            ),
        ),
    ),
    "a repair commits before it decides (R6)": Mutant(
        REPAIR,
        "no decision names",
        (Patch("repair", _SWAP, f"    yield from commit_and_count(owned, made)\n{_SWAP}"),),
    ),
    "a repair is not closed (R9)": Mutant(
        REPAIR, "holds", (Patch("repair", _SHOWN, "    yield from commit_and_count(owned, made)\n"),)
    ),
}
