"""Commands that reset, repair, stop and delete a pipeline, and end transactions by hand."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_RESET: Final = "spark_jobs/cli/reset.py"
_REPAIR: Final = "spark_jobs/cli/repair.py"
_STOP: Final = "spark_jobs/cli/requests.py"
_ASKING: Final = "spark_jobs/cli/requests.py"
_IN_DOUBT: Final = "spark_jobs/cli/in_doubt.py"
_NEW_START: Final = "spark_jobs/operations/new_start.py"
_REFUSALS: Final = "tests/spark_jobs/cli/test_refusals.py"
_RESET_TESTS: Final = "tests/spark_jobs/cli/test_reset.py"
_REPAIR_TESTS: Final = "tests/spark_jobs/cli/test_repair.py"
_NEW_START_TESTS: Final = "tests/spark_jobs/operations/test_new_start.py"

MUTANTS: Final = (
    Mutant(
        name="a reset is done without --yes",
        rule="R2",
        path=_RESET,
        before="abandon_lost=abandon_lost) if yes else None\n",
        after="abandon_lost=abandon_lost)\n",
        caught_by=(f"{_RESET_TESTS}::test_what_would_happen",),
    ),
    Mutant(
        name="a reset to positions does not compare head with the one that it read",
        rule="H30",
        path=_RESET,
        before="driver.reset(expected=head, abandon_lost",
        after="driver.reset(expected=read_head(spec), abandon_lost",
        caught_by=(
            f"{_REFUSALS}::test_h30_a_reset_to_positions_is_refused_where_a_driver_goes_on_while_the_broker_is_asked",
        ),
    ),
    Mutant(
        name="a reset begins at `starting_offsets` whatever --to says",
        rule="R6",
        path=_RESET,
        before="abandon_lost=abandon_lost, begins=begins)",
        after="abandon_lost=abandon_lost, begins=None)",
        caught_by=(f"{_REFUSALS}::test_a_reset_to_positions_begins_there",),
    ),
    Mutant(
        name="a reset gives up decided rows that nobody has given up",
        rule="R2",
        path=_RESET,
        before="abandon_lost=abandon_lost, begins=begins)",
        after="abandon_lost=True, begins=begins)",
        caught_by=(f"{_RESET_TESTS}::test_what_is_given_up",),
    ),
    Mutant(
        name="a reset deletes the offsets of what it has given up",
        rule="R2",
        path=_RESET,
        before="(not begun.abandoned and log.forget(begun.ended))",
        after="log.forget(begun.ended)",
        caught_by=(f"{_RESET_TESTS}::test_what_is_given_up",),
    ),
    Mutant(
        name="a reset to an offset that is gone is done",
        rule="docs/how-to/operations.md",
        path=_NEW_START,
        before="        if is_before(start, least) or is_before(end, start):\n",
        after="        if is_before(end, start):\n",
        caught_by=(f"{_NEW_START_TESTS}::test_an_offset_that_there_is_not",),
    ),
    Mutant(
        name="a reset to a split that no source reads is done",
        rule="docs/how-to/operations.md",
        path=_NEW_START,
        before="(unknown := sorted(wanted.keys() - named))",
        after="(unknown := sorted(named - wanted.keys()))",
        caught_by=(f"{_NEW_START_TESTS}::test_a_split_that_there_is_not",),
    ),
    Mutant(
        name="positions of a topic that was made again count for the new one",
        rule="H23",
        path=_NEW_START,
        before="if not {split, topic_of(split)} & again}",
        after="if not {split} & again}",
        caught_by=(f"{_NEW_START_TESTS}::test_a_topic_that_was_made_again_was_not_read",),
    ),
    Mutant(
        name="a repair does not see what a sink that went back has lost",
        rule="H31",
        path=_REPAIR,
        before="counted < record.checkpoint_id and not record.direct",
        after="counted < 0 and not record.direct",
        caught_by=(f"{_REFUSALS}::test_a_repair_finds_what_a_sink_that_went_back_has_lost",),
    ),
    Mutant(
        name="a repair writes again what is committed while it looks",
        rule="R7",
        path=_REPAIR,
        before="if history.is_committed(each.record) or not after.is_committed(each.record)]",
        after="if history is not None]",
        caught_by=(f"{_REFUSALS}::test_a_repair_takes_nothing_for_lost_that_is_committed_while_it_looks",),
    ),
    Mutant(
        name="a repair leaves out a sink that the spec no longer names",
        rule="R7",
        path=_REPAIR,
        before="        if name not in committers:\n",
        after="""        if name not in committers:
            continue
        if name not in committers:
""",
        caught_by=(f"{_REPAIR_TESTS}::test_a_sink_that_the_spec_no_longer_names",),
    ),
    Mutant(
        name="a repair looks only for sinks that may have lost something",
        rule="R7",
        path=_REPAIR,
        before="    if losses:\n        _check_named(",
        after="    if not losses:\n        _check_named(",
        caught_by=(f"{_REFUSALS}::test_a_repair_needs_each_sink_of_the_checkpoints_that_it_would_commit",),
    ),
    Mutant(
        name="a repair of a job of one's own says that nothing is lost",
        rule="docs/how-to/repair.md",
        path=_REPAIR,
        before="    if not loaded.sources:\n",
        after="    if not loaded.outputs:\n",
        caught_by=(f"{_REPAIR_TESTS}::test_a_job_of_ones_own",),
    ),
    Mutant(
        name="a stop takes a folder for a savepoint that it was not asked for",
        rule="docs/how-to/savepoints.md",
        path=_STOP,
        before="    if into is not None and not savepoint:\n",
        after="    if into is not None and savepoint:\n",
        caught_by=(f"{_REFUSALS}::test_a_place_for_a_savepoint_without_one_is_refused",),
    ),
    Mutant(
        name="a pipeline is deleted that runs and does not answer",
        rule="R2",
        path=_STOP,
        before="            if is_seen or not delete_all:\n",
        after="            if not delete_all:\n",
        caught_by=(f"{_REFUSALS}::test_a_pipeline_that_is_seen_to_run_and_does_not_answer_is_not_deleted",),
    ),
    Mutant(
        name="a pipeline that may run elsewhere is deleted without a question",
        rule="R2",
        path=_STOP,
        before="    if not delete_all or is_seen or loaded.checkpoint.is_shared:\n",
        after="    if not delete_all or is_seen:\n",
        caught_by=(f"{_REFUSALS}::test_a_pipeline_that_may_run_elsewhere_is_asked_before_it_is_deleted",),
    ),
    Mutant(
        name="a stop without --now aborts the running checkpoint, and the other way round",
        rule="docs/how-to/operations.md",
        path=_STOP,
        before='{"now": "true"} if now else {}',
        after='{} if now else {"now": "true"}',
        caught_by=(f"{_REFUSALS}::test_a_pipeline_that_may_run_elsewhere_is_asked_before_it_is_deleted",),
    ),
    Mutant(
        name="`eos stop --delete` deletes what is decided and not committed",
        rule="R2",
        path="spark_jobs/operations/deletion.py",
        before="    if head.waiting:\n",
        after="    if head.waiting < 0:\n",
        caught_by=(f"{_REFUSALS}::test_what_is_decided_and_not_committed_is_not_deleted",),
    ),
    Mutant(
        name="the new life that has begun during a deletion is deleted",
        rule="R2",
        path="spark_jobs/operations/deletion.py",
        before="if not path.name.startswith(reset.head.incarnation))",
        after="if path.name)",
        caught_by=(
            "tests/spark_jobs/operations/test_deletion.py::test_the_life_that_a_supervisor_starts_meanwhile_stays",
        ),
    ),
    Mutant(
        name="a refusal of the driver is taken for done",
        rule="docs/how-to/operations.md",
        path=_ASKING,
        before="    if not answer.ok:\n",
        after="    if answer.ok is None:\n",
        caught_by=(f"{_REFUSALS}::test_a_pipeline_that_may_run_elsewhere_is_asked_before_it_is_deleted",),
    ),
    Mutant(
        name="a request to a process that has ended stays, and the next one does it",
        rule="docs/how-to/operations.md",
        path=_ASKING,
        before="""        channel.withdraw(request)
        raise
""",
        after="        raise\n",
        caught_by=(f"{_REFUSALS}::test_a_driver_that_ends_without_an_answer_is_not_waited_for",),
    ),
    Mutant(
        name="transactions are judged by a head from before they were listed",
        rule="R8",
        path=_IN_DOUBT,
        before="        history = read_history(spec)  # again: what was decided since counts\n",
        after="        history = before\n",
        caught_by=(f"{_REFUSALS}::test_transactions_are_judged_by_what_was_decided_until_they_were_listed",),
    ),
    Mutant(
        name="`eos transactions` ends what the protocol would not, without --force",
        rule="R8",
        path=_IN_DOUBT,
        before="        if each.resolution is not right and not force:\n",
        after="        if each.resolution is Resolution.FOREIGN and not force:\n",
        caught_by=(f"{_REFUSALS}::test_transactions_are_judged_by_what_was_decided_until_they_were_listed",),
    ),
    Mutant(
        name="--force ends all transactions where no one is named",
        rule="R8",
        path=_IN_DOUBT,
        before="        if force:\n",
        after="        if force and ids is not None:\n",
        caught_by=(f"{_REFUSALS}::test_transactions_are_judged_by_what_was_decided_until_they_were_listed",),
    ),
    Mutant(
        name="--force ends transactions of other programs",
        rule="R8",
        path=_IN_DOUBT,
        before="        if each.prepared.transaction is None:\n",
        after="        if each.prepared.transaction is None and not force:\n",
        caught_by=(
            "tests/twophase/test_in_doubt.py::test_what_another_life_left_is_ended_by_force_and_what_another_program_left_never",
        ),
    ),
)
