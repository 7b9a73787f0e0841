"""Mutants of what stands around checkpoints: the claim, recovery, a reset, and who may swap head (R1-R3)."""

from __future__ import annotations

from tests.simulation.coordinator import Patch
from tests.simulation.mutant import (
    BEHIND,
    ONE,
    RESET,
    RESET_TO,
    RESTORE,
    SWAPS,
    TWO,
    Mutant,
)
from tests.simulation.scenarios import RESTARTING, SCENARIOS, WAKING

_START = """    yield from _commit_decided(owned)
    head, newest = owned.head, compared.newest
    claim = messages.Claim(head.incarnation, head.epoch, begins=head.completed, counted=compared.counted)
    yield from replace(claim, sinks=owned.present)
    owned.note_counted(compared.counted)
    yield from abort_leftovers(head, owned.present)
"""
_HEAD = "    head, newest = owned.head, compared.newest\n"
_CLAIM = """    claim = messages.Claim(head.incarnation, head.epoch, begins=head.completed, counted=compared.counted)
    yield from replace(claim, sinks=owned.present)
"""
_CLAIMED = _HEAD + _CLAIM
_SAID = """    if head.committed < head.completed and not owned.away:  # said last, as in R9: nothing of it is open
        yield from owned.swap(Committed(head.completed, retained), "committed")
"""
_SAYS = """    if owned.head.committed < owned.head.completed:
        yield from owned.swap(Committed(owned.head.completed, retained), "committed")
"""
_COMMITS = "    abandoned = yield from _commit_decided(owned, sinks, records, counts)\n"
_END = "    yield from messages.Claim(old.incarnation, old.epoch, take_over=True, begins=begins, counted=counts)\n"
_ENDED = "    abandoned = yield from end_incarnation(owned, birth.sinks, inspected, abandon_lost=abandon_lost)\n"
_ENDED_LATE = """    from twophase.ending import _abort_prepared, _commit_decided, _read_records
    records = yield from _read_records(owned)
    abandoned = yield from _commit_decided(owned, birth.sinks, records, {})
    old = owned.head
    yield from owned.swap(birth, birth.point)
    yield from messages.Claim(old.incarnation, old.epoch, take_over=True)
    yield from _abort_prepared(old, ())
"""
_SWAP = "    yield from owned.swap(birth, birth.point)\n"
_TAKEN = (
    "    yield from messages.Claim(owned.head.incarnation, owned.head.epoch, take_over=True, "
    "begins=owned.head.completed)\n"
)
_COMPARES = "        self.check(head)\n        return Claim().apply(head)\n"
_CLAIMS_ANY = "        return Claim().apply(head)\n"
_PRUNE = "    yield from messages.Prune(old.incarnation, old.records, below=old.completed + 1)\n"

START_MUTANTS: dict[str, Mutant] = {
    "swap without compare": Mutant(TWO, "", broken="swap without compare"),
    "abort before commit": Mutant(
        ONE,
        "lost",
        (
            Patch(
                "startup",
                _START,
                f"{_HEAD}    yield from messages.Claim(head.incarnation, head.epoch)\n"
                "    yield from abort_leftovers(head, None)\n    yield from _commit_decided(owned)\n",
            ),
            Patch("startup", "    yield from check_undecided(head, leftovers)\n", ""),
        ),
    ),
    "abort any epoch": Mutant(
        TWO,
        "lost",
        (
            Patch("startup", "    if newer:\n", "    if False:\n"),
            Patch("startup", "if p.transaction and p.transaction.scope.epoch < head.epoch)", "if p.transaction)"),
        ),
    ),
    "a start commits only the newest decision (R3)": Mutant(
        BEHIND,
        "",
        (
            Patch(
                "startup",
                "        if ref.checkpoint_id > owned.head.committed:\n",
                "        if ref.checkpoint_id > owned.head.committed and ref == owned.head.records[-1]:\n",
            ),
        ),
    ),
    "permit without claim": Mutant(TWO, "", broken="permit without claim"),
    "reset without commit": Mutant(
        RESET,
        "",
        (Patch("ending", _COMMITS, "    abandoned = ()\n"),),
    ),
    "reset without abort": Mutant(
        RESET, "a reset left", (Patch("ending", "    yield from _abort_prepared(old, (*gone, *abandoned))\n", ""),)
    ),
    "a reset lists before the sinks are claimed (R3)": Mutant(RESET, "a reset left", (Patch("ending", _END, ""),)),
    "the next life begins before the old one has ended": Mutant(
        RESET,
        "a reset left",
        (Patch("reset", _SWAP, ""), Patch("reset", _ENDED, _ENDED_LATE)),
    ),
    "a reset leaves the sinks to the old life": Mutant(
        RESET,
        "a reset alone ends as",
        (Patch("reset", _TAKEN, ""),),
    ),
    "a start from a savepoint does not look again": Mutant(
        RESTORE, "more come twice than was said", (Patch("reset", _COMPARES, _CLAIMS_ANY),)
    ),
    "a reset to positions does not compare head again (H30)": Mutant(
        RESET_TO, "more come twice than was said", (Patch("reset", _COMPARES, _CLAIMS_ANY),)
    ),
    "a start from a savepoint gives up what is decided": Mutant(
        RESTORE,
        "ends as 'set back'",
        (Patch("ending", _COMMITS, "    abandoned = ()\n"),),
    ),
    "a start from a savepoint leaves the sinks to the old life": Mutant(
        RESTORE,
        "a start from a savepoint alone ends as",
        (Patch("reset", "    yield from _claim_sinks(owned, old)\n", ""),),
    ),
    "the epoch begins anew with the next life": Mutant(
        RESET, "", (Patch("reset", "self.incarnation, head.epoch, head.nonces", "self.incarnation, 1, head.nonces"),)
    ),
    "a reset forgets witnesses before the new life has begun": Mutant(
        RESET, "", (Patch("reset", _PRUNE, ""), Patch("reset", _SWAP, _PRUNE + _SWAP))
    ),
    "a run that was superseded goes on (R1)": Mutant(
        RESTARTING, "has taken head back", (Patch("startup", "if follows is not None and seen", "if False and seen"),)
    ),
    "a run fences itself by a start that failed (R1)": Mutant(
        SCENARIOS["a run that restarts"][0],
        "never met another one",
        (Patch("startup", "if not any(nonce.startswith(run) for nonce in seen.head.nonces[-1:]):", "if True:"),),
    ),
    "the claim leaves older permits (H7)": Mutant(TWO, "leaves", broken="claim leaves permits"),
    "the sinks are not claimed (R3)": Mutant(ONE, "", (Patch("startup", _CLAIM, ""),)),
    "a start says committed before it has closed (R9)": Mutant(
        TWO,
        "may be taken out of the spec",
        (
            Patch("startup", _SAID, ""),
            Patch("startup", _CLAIMED, _SAYS + _CLAIMED),
        ),
    ),
    "leftovers stay (R3)": Mutant(
        ONE, "leaves", (Patch("startup", "    yield from abort_leftovers(head, owned.present)\n", ""),)
    ),
    "an unanswered swap is taken for refused (H20)": Mutant(
        SWAPS,
        "never met another one",
        (
            Patch("ownership", "found = value.nonces[-1] in seen.head.nonces", "found = False"),
            Patch("transitions", "if self.ref in head.records[-1:]:", "if False:"),
        ),
    ),
    "an unanswered swap is taken for landed": Mutant(
        SWAPS, "", (Patch("ownership", "            if landed:\n", "            if landed is not False:\n"),)
    ),
    "a claim's nonce is used again": Mutant(SWAPS, "", (Patch("startup", "        claims = owned.swaps\n", ""),)),
    "a newer epoch's head is taken for one's own": Mutant(
        WAKING,
        "takes a committable for lost",
        (
            Patch(
                "ownership",
                "            if seen.head.epoch > (value if found else basis.head).epoch:\n",
                "            if not found and seen.head.epoch > basis.head.epoch:\n",
            ),
        ),
    ),
    "initial positions are not stored (H3)": Mutant(
        ONE, "ends as 'stopped'", (Patch("transitions", "{**added, **head.positions", "{**head.positions"),)
    ),
    "a fenced driver decides on the head that it finds (H5)": Mutant(
        TWO,
        "lost",
        (
            Patch(
                "ownership",
                "            if seen.head.epoch > (value if found else basis.head).epoch:\n",
                "            if False:\n",
            ),
            Patch("transitions", "        _check_not_aborted(head, self.record)\n", ""),
        ),
    ),
}
