"""The end of an incarnation and the beginning of another: resets, savepoints, repairs, rescales."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="a first head that another driver has written is taken for this reset's own",
        rule="R1",
        path="twophase/reset.py",
        before="""        if seen is None or value.nonces[-1] not in seen.head.nonces:
""",
        after="""        if seen is None:
""",
        caught_by=("tests/twophase/test_reset.py::test_r1_of_two_that_write_the_first_head_one_is_fenced",),
    ),
    Mutant(
        name="a new incarnation begins with epoch 0 again",
        rule="R2",
        path="twophase/reset.py",
        before="HeadValue(head.pipeline, self.incarnation, head.epoch, head.nonces, sinks=self.sinks)",
        after="HeadValue(head.pipeline, self.incarnation, 0, head.nonces, sinks=self.sinks)",
        caught_by=(
            "tests/twophase/test_reset.py::test_one_life_is_brought_to_its_end_and_swept_away_before_the_next_is_used",
        ),
    ),
    Mutant(
        name="witnesses of the old incarnation are gone before its drivers are fenced",
        rule="R2",
        path="twophase/reset.py",
        before="""    yield from messages.Claim(owned.head.incarnation, owned.head.epoch, take_over=True, begins=owned.head.completed)
    # No process needs a record or a witness of the old incarnation now: its drivers are fenced, its head is gone.
    yield from messages.Prune(old.incarnation, old.records, below=old.completed + 1)
""",
        after="""    yield from messages.Prune(old.incarnation, old.records, below=old.completed + 1)
    yield from messages.Claim(owned.head.incarnation, owned.head.epoch, take_over=True, begins=owned.head.completed)
""",
        caught_by=(
            "tests/twophase/test_reset.py::test_one_life_is_brought_to_its_end_and_swept_away_before_the_next_is_used",
        ),
    ),
    Mutant(
        name="a reset begins before it has ended the old incarnation",
        rule="R2",
        path="twophase/reset.py",
        before="""    abandoned = yield from end_incarnation(owned, birth.sinks, inspected, abandon_lost=abandon_lost)
    yield from owned.swap(birth, birth.point)
    yield from _claim_sinks(owned, old)
""",
        after="""    yield from owned.swap(birth, birth.point)
    abandoned = yield from end_incarnation(owned, birth.sinks, inspected, abandon_lost=abandon_lost)
    yield from _claim_sinks(owned, old)
""",
        caught_by=(
            "tests/twophase/test_reset.py::test_a_fenced_reset_does_not_take_a_pruned_record_for_a_damaged_one",
        ),
    ),
    Mutant(
        name="a start from a savepoint takes sinks that another pipeline uses",
        rule="R2",
        path="twophase/restore.py",
        before="""    if not take_over and (foreign := foreign_claims(head, inspected.sinks)):
""",
        after="""    if take_over and (foreign := foreign_claims(head, inspected.sinks)):
""",
        caught_by=("tests/connectors/sql/sqlite/test_sink_restore.py::test_a_lost_location",),
    ),
    Mutant(
        name="a start from a savepoint that was cut short cannot be made again",
        rule="docs/how-to/savepoints.md",
        path="twophase/restore.py",
        before="head.origin.ended if head.origin is not None else None}",
        after="None}",
        caught_by=("tests/twophase/test_restore.py::test_the_life_before_is_known_until_every_sink_is_claimed_anew",),
    ),
    Mutant(
        name="a life from a savepoint is born with a checkpoint that waits for its commit",
        rule="docs/how-to/savepoints.md",
        path="twophase/restore.py",
        before="""            committed=seed.checkpoint_id,
""",
        after="",
        caught_by=("tests/twophase/test_restore.py::test_the_old_life_is_ended_before_the_new_one_is_born_whole",),
    ),
    Mutant(
        name="a reset gives up decided rows without being asked",
        rule="R2",
        path="twophase/ending.py",
        before="""    if abandoned and not abandon_lost:
""",
        after="""    if abandoned and abandon_lost:
""",
        caught_by=("tests/twophase/test_reset.py::test_a_sink_that_left_the_spec_and_may_hold_something_is_named",),
    ),
    Mutant(
        name="a reset drops what waits in a sink that the spec no longer names",
        rule="R2",
        path="twophase/ending.py",
        before="for name, group in record.committables.items() if name not in sinks and group}",
        after="for name, group in record.committables.items() if name in sinks and not group}",
        caught_by=("tests/twophase/test_reset.py::test_what_is_given_up_on_purpose_is_said_first",),
    ),
    Mutant(
        name="a reset says nothing of what a sink out of reach may hold prepared",
        rule="R2",
        path="twophase/ending.py",
        before="""    if not gone or not may_be_under_way(old, spark):
""",
        after="""    if not gone or may_be_under_way(old, spark):
""",
        caught_by=("tests/twophase/test_reset.py::test_a_sink_that_left_the_spec_and_may_hold_something_is_named",),
    ),
    Mutant(
        name="a reset rolls back what is prepared before it asks the records",
        rule="H27",
        path="twophase/ending.py",
        before="""    yield from check_undecided(old, asked)
""",
        after="",
        caught_by=(
            "tests/twophase/test_reset.py::test_h27_a_sink_that_goes_back_under_a_reset_stops_it_before_anything_is_rolled_back",
        ),
    ),
    Mutant(
        name="a reset commits what tasks have committed at-least-once",
        rule="H34",
        path="twophase/ending.py",
        before=" or (isinstance(record, CheckpointRecord) and record.direct):",
        after=":",
        caught_by=(
            "tests/twophase/test_two_logs.py"
            "::test_h34_a_reset_after_a_repair_that_died_gives_up_nothing_of_at_least_once_checkpoints",
        ),
    ),
    Mutant(
        name="a reset commits nothing of what is decided",
        rule="R2",
        path="twophase/ending.py",
        before="        if number <= owned.head.committed or (",
        after="        if number <= owned.head.completed or (",
        caught_by=(
            "tests/twophase/test_reset.py::test_h27_what_a_sink_lacks_and_holds_prepared_is_committed_and_counted",
        ),
    ),
    Mutant(
        name="a repair writes rows of another content",
        rule="R4",
        path="twophase/repair.py",
        before="if now.get(task) != then.get(task)]:",
        after="if now.get(task, (0, 0))[0] != then.get(task, (0, 0))[0]]:",
        caught_by=(
            "tests/twophase/test_repair.py::test_r4_a_record_without_a_method_is_repaired_by_the_version_that_decided_it",
        ),
    ),
    Mutant(
        name="a repair replaces what is not lost",
        rule="R7",
        path="twophase/repair.py",
        before="_in_place(each, again[each.transaction.task]) if each.transaction in lost else each for each in group",
        after="_in_place(each, again[each.transaction.task]) for each in group",
        caught_by=("tests/twophase/test_repair.py::test_it_is_prepared_decided_committed_and_closed",),
    ),
    Mutant(
        name="what is written again does not hold the witness of the lost transaction",
        rule="R7",
        path="twophase/repair.py",
        before="data={**again.data, INSTEAD_OF: str(origin(lost))}",
        after="data=again.data",
        caught_by=("tests/twophase/test_repair.py::test_it_is_prepared_decided_committed_and_closed",),
    ),
    Mutant(
        name="a second repair forgets which transaction was lost first",
        rule="R7",
        path="twophase/repair.py",
        before="INSTEAD_OF: str(origin(lost))",
        after="INSTEAD_OF: str(lost.transaction)",
        caught_by=("tests/twophase/test_repair.py::test_what_is_lost_once_more_keeps_its_origin",),
    ),
    Mutant(
        name="a repair writes again what a sink only refuses now",
        rule="R7",
        path="twophase/repair.py",
        before="        if not isinstance(error, LostCommittableError):",
        after="        if isinstance(error, LostCommittableError):",
        caught_by=("tests/twophase/test_repair.py::test_a_sink_that_cannot_take_what_it_holds_is_not_claimed",),
    ),
    Mutant(
        name="a repair that fails leaves what it has prepared",
        rule="R7",
        path="twophase/repair.py",
        before="""        yield from close(owned.head, scope)  # no decision of it was ever sent
""",
        after="",
        caught_by=("tests/twophase/test_repair.py::test_what_is_not_the_same_is_ended_before_it_is_decided",),
    ),
    Mutant(
        name="a repair decides rows that are gone again",
        rule="R7",
        path="twophase/repair.py",
        before="""        if again:
""",
        after="""        if not again and again:
""",
        caught_by=("tests/twophase/test_repair.py::test_what_was_written_again_and_is_gone_is_not_decided",),
    ),
    Mutant(
        name="a rescale begins while a batch is under way",
        rule="R2",
        path="twophase/rescale.py",
        before="""    if not is_at_rest(head, spark):
""",
        after="""    if is_at_rest(head, spark) and before < 0:
""",
        caught_by=(
            "tests/twophase/test_rescale.py::test_a_rescale_begins_only_where_no_batch_is_planned_or_to_be_run_again",
        ),
    ),
    Mutant(
        name="a rescale that has failed takes back a newer driver's plan",
        rule="R1",
        path="twophase/rescale.py",
        before="""    yield from check_owned(owned)
""",
        after="",
        caught_by=(
            "tests/twophase/test_rescale.py::test_a_rescale_that_failed_takes_back_nothing_of_a_driver_that_has_come_after_it",
        ),
    ),
    Mutant(
        name="a rescale under way is taken back for another number",
        rule="docs/how-to/rescaling.md",
        path="twophase/rescale.py",
        before="""    if done or partitions != before:
""",
        after="""    if done:
""",
        caught_by=(
            "tests/twophase/test_rescale.py::test_a_rescale_that_has_begun_is_taken_back_by_the_number_of_before_alone",
        ),
    ),
)
