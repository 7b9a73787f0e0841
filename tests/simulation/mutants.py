"""The protocol with one rule broken at a time. Each must be caught by an exploration; see `test_mutants`.

The names of those that the exhaustive models (`tests.model`) break as well are the same. A mutant is a patch of the
real coordinator, or a rule that the simulated register, sinks or tasks break (`Config.broken`). Those of the life of a
checkpoint are here, the others in `mutants_start`, `mutants_repair`, `mutants_rescale`, `mutants_set_back` and
`mutants_resumed` and `mutants_away`.
"""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.coordinator import Patch
from tests.simulation.mutant import (
    ABORTED,
    BEHIND,
    FAILING,
    FORGETFUL,
    ONE,
    RETRIES,
    SLOW,
    TAKEN_OVER,
    TOLERATED,
    TWO,
    UPDATE,
    VANDAL,
    Mutant,
)
from tests.simulation.mutants_away import AWAY_MUTANTS
from tests.simulation.mutants_repair import REPAIR_MUTANTS
from tests.simulation.mutants_rescale import RESCALE_MUTANTS
from tests.simulation.mutants_resumed import RESUMED_MUTANTS
from tests.simulation.mutants_set_back import SET_BACK_MUTANTS
from tests.simulation.mutants_start import START_MUTANTS

_DECIDE = """    yield from put
    yield from owned.swap(Complete(record, put.ref, begin.began), "decide")
"""
_REPLAY = """    if number <= head.completed:
        return None
    if number != head.completed + 1:
"""
_CLOSE = """    yield from messages.Revoke(scope, counted, sinks)
    listed = yield from messages.ListPrepared(head.incarnation, scope.checkpoint_id, sinks)
"""
_LISTED = "        if {each.transaction for each in group} & {each.transaction for each in rest.get(sink, ())}:\n"
_CLOSED = "    yield from close(owned.head, record.scope, record, counted=True, sinks=tuple(record.committables))\n"
_SHOWN = """    yield from show(owned, record, own=own)
    yield from say(owned, record, retained)
"""

_RAISES = "        yield from _abort(owned, scope, error)\n        raise error\n"

MUTANTS: dict[str, Mutant] = {
    **START_MUTANTS,
    **REPAIR_MUTANTS,
    **RESCALE_MUTANTS,
    **SET_BACK_MUTANTS,
    **RESUMED_MUTANTS,
    **AWAY_MUTANTS,
    "at-least-once: a job that failed is noted": Mutant(
        replace(FAILING, direct=frozenset({0})),
        "lost",
        (
            Patch(
                "checkpoint",
                "    if isinstance(answer, Failed):\n        raise answer.error\n",
                "    if isinstance(answer, Failed):\n        answer = Acknowledged(dict.fromkeys(sinks, ()), 0.0)\n",
            ),
        ),
    ),
    "at-least-once: a start asks for witnesses (R2)": Mutant(
        replace(ONE, direct=frozenset({0}), counts=False),
        "refused",
        (
            Patch(
                "startup", "            return () if record.direct else with_rows\n", "            return with_rows\n"
            ),
        ),
    ),
    "commit before decide": Mutant(
        ONE,
        "no decision names",
        (Patch("checkpoint", _DECIDE, "    yield from commit_and_count(owned, record)\n" + _DECIDE),),
    ),
    "no epoch in the id": Mutant(
        TWO, "", (Patch("acknowledged", "t.scope != scope or ", ""),), broken="no epoch in the id"
    ),
    "no permit": Mutant(TWO, "leaves", broken="no permit"),
    "abort without a swap of its own (H2)": Mutant(
        ABORTED,
        "lost",
        (Patch("checkpoint", '    yield from owned.swap(Abort(scope.checkpoint_id, scope.attempt), "abort")\n', ""),),
    ),
    "a decision of an aborted try lands by merge and retry (H2)": Mutant(
        ABORTED, "lost", (Patch("transitions", "        _check_not_aborted(head, self.record)\n", ""),)
    ),
    "committed is said though something is lost": Mutant(
        VANDAL, "finished, and sink0 shows", (Patch("commits", "if lost:", "if False:"),)
    ),
    "unknown is taken for committed": Mutant(VANDAL, "finished, and sink0 shows", broken="unknown is committed"),
    "a look that was not answered says that nothing is there (R7)": Mutant(
        ONE, "ends as 'lost'", broken="silence is nothing there"
    ),
    "the witness is read without a lock (H4)": Mutant(SLOW, "'lost'", broken="plain read of the witness"),
    "OK is taken for committed where a server forgets (H24)": Mutant(
        replace(FORGETFUL, counts=False), "", broken="the server is believed"
    ),
    "only what a server lists is rolled back where it forgets (H24)": Mutant(
        FORGETFUL, "leaves", broken="only what is listed is ended"
    ),
    "a claim does not wait for who applies (H28)": Mutant(
        replace(TAKEN_OVER, drivers=1), "became visible after its claim", broken="a claim does not wait for who applies"
    ),
    "retry later is taken for committed": Mutant(
        replace(SLOW, counts=False),
        "finished, and sink0 shows",
        (Patch("commits", "        if not waiting:\n", "        if True:\n"),),
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
            Patch("checkpoint", _REPLAY, "    if number > head.completed + 1:\n"),
            Patch("transitions", "        if number != head.completed + 1:\n", "        if False:\n"),
            Patch("checkpoint", "    if is_before(end, start):\n", "    if False:\n"),
            Patch("transitions", "if each.start != before or is_before(each.end, each.start):", "if False:"),
        ),
    ),
    "a replay computes this version's digests, whatever the record names (R4)": Mutant(
        UPDATE,
        "ends as 'other rows'",
        (Patch("checkpoint", "messages.Discard(number, record.digest_methods)", "messages.Discard(number, (2,))"),),
    ),
    "a decision does not name the method of its digests (R4)": Mutant(
        UPDATE, "ends as 'other rows'", (Patch("checkpoint", "        digest_method=method,\n", ""),)
    ),
    "a retry rolls its sibling back (H1)": Mutant(RETRIES, "lost", broken="retry rolls its sibling back"),
    "the newest attempt is committed, not the accepted one (H1)": Mutant(
        RETRIES, "", broken="the newest attempt is committed"
    ),
    "a close takes in what is newer (R9)": Mutant(
        BEHIND,
        "lost",
        (
            Patch(
                "checkpoint",
                "(other.epoch, other.checkpoint_id) == (scope.epoch, scope.checkpoint_id)",
                "other.epoch == scope.epoch and other.checkpoint_id >= scope.checkpoint_id",
            ),
        ),
    ),
    "committed is said before the close (R9)": Mutant(
        RETRIES,
        "still holds",
        (
            Patch(
                "checkpoint",
                _SHOWN,
                "    yield from commit_and_count(owned, record)\n"
                "    yield from say(owned, record, retained)\n"
                "    yield from close(owned.head, record.scope)\n",
            ),
        ),
    ),
    "listed before the permits are gone (R9)": Mutant(
        RETRIES,
        "still holds",
        (Patch("checkpoint", _CLOSE, "".join(reversed(_CLOSE.splitlines(keepends=True)))),),
    ),
    "nothing is closed (R9)": Mutant(RETRIES, "leaves", (Patch("checkpoint", _CLOSED, ""),)),
    "an aborted try is not closed (R8)": Mutant(
        FAILING,
        "",
        (
            Patch(
                "checkpoint",
                '"abort")\n    yield from close(owned.head, scope, sinks=owned.present)\n',
                '"abort")\n',
            ),
            Patch(
                "checkpoint",
                "(other.epoch, other.checkpoint_id) == (scope.epoch, scope.checkpoint_id)",
                "other == scope",
            ),
        ),
    ),
    "a tolerated failure is decided (R8)": Mutant(
        TOLERATED,
        "finished, and sink0 shows",
        (
            Patch(
                "checkpoint",
                "        answer = yield from messages.RunWriters(scope)\n    error",
                "        answer = Acknowledged(dict.fromkeys(sinks, ()), 0.0)\n    error",
            ),
        ),
    ),
    "witnesses are pruned above committed (R9)": Mutant(
        replace(ONE, counts=False),
        "refused",
        (Patch("checkpoint", "below=owned.head.records[0].checkpoint_id)", "below=record.checkpoint_id + 1)"),),
    ),
    "records are let go of before they are committed (R9)": Mutant(
        ONE,
        "",
        (Patch("transitions", "records=(*head.records, self.ref),", "records=(),"),),
    ),
    "an abort returns to Spark (H13)": Mutant(
        FAILING,
        "ends as 'refused'",
        (
            Patch("checkpoint", _RAISES, _RAISES.replace("raise error", "return None")),
            Patch("checkpoint", "    if is_new or owned.head", "    if record is not None and owned.head"),
        ),
    ),
}
