"""The protocol with one rule broken at a time. Each must be caught by an exploration; see `test_mutants`.

The names of the first nine are those of the exhaustive model (`tests.model`). A mutant is a patch of the real
coordinator, or a rule that the simulated register, sinks or tasks break (`Config.broken`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.config import Budget, Config
from tests.simulation.coordinator import Patch
from tests.simulation.scenarios import RESTARTING, SCENARIOS, WAKING

ONE = Config(sinks=1, tasks=1, drivers=1)
TWO = SCENARIOS["taking turns"][0]
RETRIES = Config(sinks=1, tasks=1, drivers=1, budget=Budget(retries=1))
SWAPS = Config(sinks=1, tasks=1, checkpoints=1, drivers=1, budget=Budget(swaps=2))
ABORTED = SCENARIOS["aborted by another process"][0]
SLOW = SCENARIOS["commits that take their time"][0]
RESET = SCENARIOS["a reset while others run"][0]
VANDAL = Config(sinks=1, tasks=1, drivers=1, budget=Budget(vandals=1))
FAILING = Config(sinks=1, tasks=1, drivers=1, tries=2, budget=Budget(retries=1, failures=1))


@dataclass(frozen=True)
class Mutant:
    """One broken rule."""

    config: Config
    caught_as: str  # a part of the violation
    patches: tuple[Patch, ...] = ()
    broken: str = ""


_DECIDE = """    yield messages.PutRecord(ref, record)
    yield from owned.swap(Complete(record, ref, begin.began), "decide")
"""
_START = """    yield from _commit_decided(owned)
    head = owned.head
    yield messages.Claim(head.incarnation, head.epoch)
    yield from _abort_leftovers(head)
"""
_REPLAY = """    if number <= owned.head.completed:
        return (yield from _replay(owned, begin, retained))
    if number != owned.head.completed + 1:
"""
_CLOSE = """    yield messages.Revoke(scope)
    listed: Mapping[str, Sequence[Prepared]] = yield messages.ListPrepared(head.incarnation)
"""
_FINISH = """    yield from _close(owned.head, record.scope)
    before = owned.head.records
    yield from owned.swap(Committed(record.checkpoint_id, retained), "committed")
"""
_LANDED = """            if found:
                self.version, self.head = seen.version, seen.head
                return
"""

_CLAIMED = "    head = owned.head\n    yield messages.Claim(head.incarnation, head.epoch)\n"
_SAID = """    if head.committed < head.completed:  # said last, as in R9: nothing of it is open or prepared any more
        yield from owned.swap(Committed(head.completed, retained), "committed")
    yield messages.Sweep(owned.head)
"""
_SAYS = """    if owned.head.committed < owned.head.completed:
        yield from owned.swap(Committed(owned.head.completed, retained), "committed")
"""
_END = "    yield messages.Claim(old.incarnation, old.epoch, take_over=True)\n"
_SWAP = '    yield from owned.swap(Reset(incarnation, tuple(sinks)), "reset")\n'
_PRUNE = "    yield messages.Prune(old.incarnation, old.records, below=old.completed + 1)\n"

MUTANTS: dict[str, Mutant] = {
    "swap without compare": Mutant(TWO, "", broken="swap without compare"),
    "commit before decide": Mutant(
        ONE,
        "no decision names",
        (Patch("checkpoint", _DECIDE, "    yield from commit_everywhere(owned, record)\n" + _DECIDE),),
    ),
    "abort before commit": Mutant(
        ONE,
        "lost",
        (
            Patch(
                "startup",
                _START,
                "    head = owned.head\n    yield messages.Claim(head.incarnation, head.epoch)\n"
                "    yield from _abort_leftovers(head)\n    yield from _commit_decided(owned)\n",
            ),
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
    "no epoch in the id": Mutant(
        TWO, "", (Patch("checkpoint", "t.scope != scope or ", ""),), broken="no epoch in the id"
    ),
    "no permit": Mutant(TWO, "leaves", broken="no permit"),
    "permit without claim": Mutant(TWO, "", broken="permit without claim"),
    "reset without commit": Mutant(
        RESET,
        "",
        (Patch("reset", "    abandoned = yield from _commit_decided(owned, sinks)\n", "    abandoned = ()\n"),),
    ),
    "reset without abort": Mutant(
        RESET, "a reset left", (Patch("reset", "    yield from _abort_prepared(old)\n", ""),)
    ),
    "a reset lists before the sinks are claimed (R3)": Mutant(RESET, "a reset left", (Patch("reset", _END, ""),)),
    "the next life begins before the old one has ended": Mutant(
        RESET,
        "a reset left",
        (Patch("reset", _SWAP, ""), Patch("reset", _END, _SWAP + _END)),
    ),
    "a reset leaves the sinks to the old life": Mutant(
        RESET,
        "a reset alone ends as",
        (Patch("reset", "    yield messages.Claim(incarnation, owned.head.epoch, take_over=True)\n", ""),),
    ),
    "the epoch begins anew with the next life": Mutant(
        RESET, "", (Patch("reset", "self.incarnation, head.epoch, head.nonces", "self.incarnation, 1, head.nonces"),)
    ),
    "a reset forgets witnesses before the new life has begun": Mutant(
        RESET, "", (Patch("reset", _PRUNE, ""), Patch("reset", _SWAP, _PRUNE + _SWAP))
    ),
    "a run that was superseded goes on (R1)": Mutant(
        RESTARTING, "has taken head back", (Patch("startup", "if follows is not None and head", "if False and head"),)
    ),
    "a run fences itself by a start that failed (R1)": Mutant(
        SCENARIOS["a run that restarts"][0],
        "never met another one",
        (Patch("startup", "seen.epoch != mine.epoch and not by_this_run", "seen.epoch != mine.epoch"),),
    ),
    "abort without a swap of its own (H2)": Mutant(
        ABORTED,
        "lost",
        (Patch("checkpoint", '    yield from owned.swap(Abort(scope.checkpoint_id, scope.attempt), "abort")\n', ""),),
    ),
    "a decision of an aborted try lands by merge and retry (H2)": Mutant(
        ABORTED, "lost", (Patch("transitions", "        _check_not_aborted(head, self.record)\n", ""),)
    ),
    "lost is taken for committed": Mutant(
        VANDAL, "finished, and sink0 shows", (Patch("commits", "if lost:", "if False:"),)
    ),
    "unknown is taken for committed": Mutant(VANDAL, "finished, and sink0 shows", broken="unknown is committed"),
    "the witness is read without a lock (H4)": Mutant(SLOW, "'lost'", broken="plain read of the witness"),
    "retry later is taken for committed": Mutant(
        SLOW, "finished, and sink0 shows", (Patch("commits", "        if not waiting:\n", "        if True:\n"),)
    ),
    "lost is said without a look at head (H12)": Mutant(
        TWO,
        "takes a committable for lost",
        (
            Patch(
                "commits",
                "    if seen is None or seen.head.epoch != owned.head.epoch:\n",
                "    if seen is None:\n",
            ),
        ),
    ),
    "a replay is not detected (R4)": Mutant(
        ONE,
        "",
        (
            Patch("checkpoint", _REPLAY, "    if number > owned.head.completed + 1:\n"),
            Patch("transitions", "        if number != head.completed + 1:\n", "        if False:\n"),
            Patch("checkpoint", "    if end < start:\n", "    if False:\n"),
            Patch("transitions", "if each.start != before or each.end < each.start:", "if False:"),
        ),
    ),
    "a retry rolls its sibling back (H1)": Mutant(RETRIES, "lost", broken="retry rolls its sibling back"),
    "the newest attempt is committed, not the accepted one (H1)": Mutant(
        RETRIES, "", broken="the newest attempt is committed"
    ),
    "committed is said before the close (R9)": Mutant(
        RETRIES,
        "still holds",
        (
            Patch(
                "checkpoint",
                _FINISH,
                "    before = owned.head.records\n"
                '    yield from owned.swap(Committed(record.checkpoint_id, retained), "committed")\n'
                "    yield from _close(owned.head, record.scope)\n",
            ),
        ),
    ),
    "listed before the permits are gone (R9)": Mutant(
        RETRIES,
        "still holds",
        (Patch("checkpoint", _CLOSE, "".join(reversed(_CLOSE.splitlines(keepends=True)))),),
    ),
    "nothing is closed (R9)": Mutant(
        RETRIES, "leaves", (Patch("checkpoint", "    yield from _close(owned.head, record.scope)\n", ""),)
    ),
    "an aborted try is not closed (R8)": Mutant(
        FAILING,
        "",
        (
            Patch(
                "checkpoint",
                '"abort")\n    yield from _close(owned.head, scope)\n',
                '"abort")\n',
            ),
            Patch(
                "checkpoint",
                "(other.epoch, other.checkpoint_id) == (scope.epoch, scope.checkpoint_id)",
                "other == scope",
            ),
        ),
    ),
    "witnesses are pruned above committed (R9)": Mutant(
        ONE,
        "refused",
        (Patch("checkpoint", "below=dropped[-1].checkpoint_id + 1)", "below=record.checkpoint_id + 1)"),),
    ),
    "records are let go of before they are committed (R9)": Mutant(
        ONE,
        "",
        (Patch("transitions", "records=(*head.records, self.ref),", "records=(),"),),
    ),
    "the claim leaves older permits (H7)": Mutant(TWO, "leaves", broken="claim leaves permits"),
    "the sinks are not claimed (R3)": Mutant(
        ONE, "", (Patch("startup", "    yield messages.Claim(head.incarnation, head.epoch)\n", ""),)
    ),
    "a start says committed before it has closed (R9)": Mutant(
        TWO,
        "may be taken out of the spec",
        (
            Patch("startup", _SAID, "    yield messages.Sweep(owned.head)\n"),
            Patch("startup", _CLAIMED, _SAYS + _CLAIMED),
        ),
    ),
    "leftovers stay (R3)": Mutant(ONE, "leaves", (Patch("startup", "    yield from _abort_leftovers(head)\n", ""),)),
    "an unanswered swap is taken for refused (H20)": Mutant(
        SWAPS,
        "never met another one",
        (Patch("ownership", "found = value.nonces[-1] in seen.head.nonces", "found = False"),),
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
                "            if seen.head.epoch != (value if found else self.head).epoch:\n",
                "            if not found and seen.head.epoch != self.head.epoch:\n",
            ),
        ),
    ),
    "initial positions are not stored (H3)": Mutant(
        ONE, "ends as 'stopped'", (Patch("transitions", "{**added, **head.positions", "{**head.positions"),)
    ),
}
