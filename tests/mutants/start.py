"""A start: what it claims, and in which order it ends what is older (R1, R3)."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="a start commits the newest checkpoint first",
        rule="R3",
        path="twophase/startup.py",
        before="""    for ref in owned.head.records:
""",
        after="""    for ref in reversed(owned.head.records):
""",
        caught_by=(
            "tests/twophase/test_startup.py::test_r3_what_is_decided_is_committed_in_the_order_of_the_checkpoints",
        ),
    ),
    Mutant(
        name="transactions of a newer epoch do not fence a start",
        rule="R1",
        path="twophase/startup.py",
        before="""    newer = [p for epoch, p in epochs if epoch > head.epoch]
""",
        after="""    newer = [p for epoch, p in epochs if epoch > head.epoch + 1]
""",
        caught_by=("tests/twophase/test_startup.py::test_transactions_of_a_newer_epoch_fence",),
    ),
    Mutant(
        name="what another driver has prepared in this epoch is left",
        rule="H29",
        path="twophase/startup.py",
        before="    if twins:  # this",
        after="    if twins and newer:  # this",
        caught_by=(
            "tests/twophase/test_startup.py::test_h29_transactions_of_ones_own_epoch_at_its_start_are_another_drivers",
        ),
    ),
    Mutant(
        name="a claim that another driver has won is taken for this driver's own",
        rule="R1",
        path="twophase/startup.py",
        before="""            if landed is None or value.nonces[-1] not in landed.head.nonces:
""",
        after="""            if landed is None:
""",
        caught_by=("tests/twophase/test_startup.py::test_a_claim_that_is_refused_begins_again",),
    ),
    Mutant(
        name="an earlier claim that landed late passes for the newest one",
        rule="R1",
        path="twophase/startup.py",
        before="""        claims = owned.swaps
""",
        after="",
        caught_by=(
            "tests/twophase/test_startup.py::test_an_earlier_claim_that_landed_late_does_not_pass_for_the_one_just_sent",
        ),
    ),
    Mutant(
        name="a comparison of two moments is a refusal",
        rule="R2",
        path="twophase/startup.py",
        before="""            if again == seen:
""",
        after="""            if again is not None:
""",
        caught_by=("tests/twophase/test_startup.py::test_a_comparison_of_two_moments_is_made_again",),
    ),
    Mutant(
        name="a start leaves it unsaid that it has committed what was decided",
        rule="R9",
        path="twophase/startup.py",
        before="    if head.committed < head.completed and not owned.away:  # said",
        after="    if head.committed > head.completed and not owned.away:  # said",
        caught_by=("tests/twophase/test_startup.py::test_what_is_decided_is_committed_before_anything_is_aborted",),
    ),
    Mutant(
        name="a start asks a sink for rows that are not committed yet",
        rule="R2",
        path="twophase/startup.py",
        before="""for each in records if each.checkpoint_id <= head.committed):
""",
        after="""for each in records):
""",
        caught_by=(
            "tests/twophase/test_startup.py::test_r2_rows_that_are_decided_and_not_committed_are_not_asked_for",
        ),
    ),
    Mutant(
        name="a start leaves the records that no head points at",
        rule="R9",
        path="twophase/startup.py",
        before="""    yield from messages.Sweep(owned.head)
""",
        after="",
        caught_by=("tests/twophase/test_startup.py::test_what_is_decided_is_committed_before_anything_is_aborted",),
    ),
    Mutant(
        name="a restart takes the pipeline back from another run",
        rule="R1",
        path="twophase/startup.py",
        before="""        if not any(nonce.startswith(run) for nonce in seen.head.nonces[-1:]):
""",
        after="""        if not seen.head.nonces:
""",
        caught_by=(
            "tests/twophase/test_restart_superseded.py::test_a_restart_ends_as_fenced_where_another_run_has_claimed_meanwhile",
        ),
    ),
    Mutant(
        name="a start claims the sinks under the epoch before its own",
        rule="R1",
        path="twophase/startup.py",
        before="""    claim = messages.Claim(head.incarnation, head.epoch, begins=head.completed, counted=compared.counted)
""",
        after="""    claim = messages.Claim(head.incarnation, head.epoch - 1, begins=head.completed, counted=compared.counted)
""",
        caught_by=("tests/twophase/test_startup.py::test_what_is_decided_is_committed_before_anything_is_aborted",),
    ),
    Mutant(
        name="a sink that lacks one checkpoint passes",
        rule="H26",
        path="twophase/set_back.py",
        before="""sink.counted < counted[name]
    }""",
        after="""sink.counted < counted[name] - 1
    }""",
        caught_by=(
            "tests/twophase/test_reset.py::test_h27_what_a_sink_lacks_and_holds_prepared_is_committed_and_counted",
        ),
    ),
    Mutant(
        name="what no record can judge is rolled back",
        rule="H27",
        path="twophase/set_back.py",
        before="""                raise IdentityError(message, remedy=f"whether it was decided cannot be told: {_REMEDY}")
""",
        after="""                continue
""",
        caught_by=("tests/twophase/test_startup.py::test_h27_what_no_record_can_judge_is_not_rolled_back",),
    ),
    Mutant(
        name="a checkpoint written at-least-once is expected to be counted",
        rule="H26",
        path="twophase/set_back.py",
        before="""    return not record.direct and sink in record.committables
""",
        after="""    return sink in record.committables
""",
        caught_by=("tests/twophase/test_reset.py::test_h27_a_pipeline_that_was_written_at_least_once_lacks_nothing",),
    ),
)
