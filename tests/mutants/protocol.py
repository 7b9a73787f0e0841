"""The protocol: one checkpoint from its plan to its end (R4 to R10)."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_CHECKPOINT: Final = "twophase/checkpoint.py"
_TESTS: Final = "tests/test_twophase_checkpoint.py"

MUTANTS: Final = (
    Mutant(
        name="a decision is taken from acknowledgements that are not whole",
        rule="R6",
        path=_CHECKPOINT,
        before="answer.error if isinstance(answer, Failed) else mistake(scope, sinks, answer.committables)",
        after="answer.error if isinstance(answer, Failed) else None",
        caught_by=(f"{_TESTS}::test_acknowledgements_must_be_of_this_run",),
    ),
    Mutant(
        name="an abort rolls back before its swap has won",
        rule="R8",
        path=_CHECKPOINT,
        before="""    yield from owned.swap(Abort(scope.checkpoint_id, scope.attempt), "abort")
    yield from close(owned.head, scope)
""",
        after="""    yield from close(owned.head, scope)
    yield from owned.swap(Abort(scope.checkpoint_id, scope.attempt), "abort")
""",
        caught_by=(f"{_TESTS}::test_a_failed_job_is_aborted_by_a_swap_and_then_closed",),
    ),
    Mutant(
        name="a close lists what is prepared before it has deleted the permits",
        rule="R9",
        path=_CHECKPOINT,
        before="""    yield messages.Revoke(scope, counted)
    listed: Mapping[str, Sequence[Prepared]] = yield messages.ListPrepared(head.incarnation, scope.checkpoint_id)
""",
        after="""    listed: Mapping[str, Sequence[Prepared]] = yield messages.ListPrepared(head.incarnation, scope.checkpoint_id)
    yield messages.Revoke(scope, counted)
""",
        caught_by=(f"{_TESTS}::test_the_order_of_r10",),
    ),
    Mutant(
        name="a replay of other offsets than those decided goes on",
        rule="R4",
        path=_CHECKPOINT,
        before="if record.offsets_log != begin.offsets_log:",
        after="if not record.offsets_log:",
        caught_by=(f"{_TESTS}::test_a_replay_of_other_offsets_is_refused",),
    ),
)
