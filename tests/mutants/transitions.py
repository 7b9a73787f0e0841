"""Changes of head, and the hold on it (R1, R6 to R9)."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="a start calls all records of a head at-least-once, though one that is not was let go of",
        rule="H34",
        path="twophase/startup.py",
        before="    return direct if len(direct) < len(records) else frozenset()\n",
        after="    return direct\n",
        caught_by=(
            "tests/twophase/test_startup.py"
            "::test_h34_a_start_says_in_the_head_of_an_earlier_version_which_records_are_direct",
        ),
    ),
    Mutant(
        name="a start claims the epoch of the one before",
        rule="R1",
        path="twophase/transitions.py",
        before="epoch=head.epoch + 1, sinks=sinks",
        after="epoch=max(head.epoch, 1), sinks=sinks",
        caught_by=("tests/twophase/test_startup.py::test_a_claim_that_is_refused_begins_again",),
    ),
    Mutant(
        name="an initial position that is stored is overwritten",
        rule="H3",
        path="twophase/transitions.py",
        before=""" if split not in known}
""",
        after="""}
""",
        caught_by=("tests/twophase/test_transitions.py::test_initial_positions_are_stored_once",),
    ),
    Mutant(
        name="the id of a topic that is stored is overwritten",
        rule="H23",
        path="twophase/transitions.py",
        before="{**self.starting_point.identities, **head.identities.get(self.source, {})}",
        after="{**head.identities.get(self.source, {}), **self.starting_point.identities}",
        caught_by=("tests/twophase/test_transitions.py::test_initial_positions_are_stored_once",),
    ),
    Mutant(
        name="a life from a savepoint goes back to its initial positions",
        rule="docs/how-to/savepoints.md",
        path="twophase/transitions.py",
        before="{**added, **head.positions.get(self.source, {})}",
        after="{**head.positions.get(self.source, {}), **added}",
        caught_by=("tests/twophase/test_restore.py::test_the_old_life_is_ended_before_the_new_one_is_born_whole",),
    ),
    Mutant(
        name="head takes the checkpoint of another query",
        rule="R2",
        path="twophase/transitions.py",
        before="""        if head.query_id not in (None, self.query_id):
""",
        after="""        if not self.query_id:
""",
        caught_by=("tests/twophase/test_transitions.py::test_the_query_is_set_once",),
    ),
    Mutant(
        name="a decision of a try that was aborted lands",
        rule="R8",
        path="twophase/transitions.py",
        before="""        _check_not_aborted(head, self.record)
""",
        after="",
        caught_by=("tests/twophase/test_transitions.py::test_a_decision_of_another_epoch_is_none",),
    ),
    Mutant(
        name="a checkpoint may be left out",
        rule="R6",
        path="twophase/transitions.py",
        before="""        if number != head.completed + 1:
""",
        after="""        if number <= head.completed:
""",
        caught_by=("tests/twophase/test_transitions.py::test_checkpoints_follow_one_another",),
    ),
    Mutant(
        name="a checkpoint may begin behind the end of the one before it",
        rule="R6",
        path="twophase/transitions.py",
        before="""    if each.start != before or is_before(each.end, each.start):
""",
        after="""    if before is None or each.start < before or each.end < each.start:
""",
        caught_by=("tests/twophase/test_transitions.py::test_each_split_goes_on_where_it_ended",),
    ),
    Mutant(
        name="a decision that has landed is refused against itself",
        rule="H20",
        path="twophase/transitions.py",
        before="""        if self.ref in head.records[-1:]:
            return head
""",
        after="",
        caught_by=("tests/twophase/test_transitions.py::test_a_decision_that_stands_is_not_refused_against_itself",),
    ),
    Mutant(
        name="a completed checkpoint is aborted",
        rule="R8",
        path="twophase/transitions.py",
        before="""        if head.completed >= self.checkpoint_id:
""",
        after="""        if head.completed > self.checkpoint_id:
""",
        caught_by=("tests/twophase/test_transitions.py::test_what_is_completed_cannot_be_aborted",),
    ),
    Mutant(
        name="the record of the newest committed checkpoint is let go of",
        rule="R9",
        path="twophase/transitions.py",
        before="min(records[-1].checkpoint_id - self.retained + 1, self.checkpoint_id)",
        after="records[-1].checkpoint_id - self.retained + 1",
        caught_by=("tests/twophase/test_transitions.py::test_records_are_let_go_of_only_below_what_is_committed",),
    ),
    Mutant(
        name="the end of an earlier checkpoint takes back that later ones are committed",
        rule="R9",
        path="twophase/transitions.py",
        before="committed=max(head.committed, self.checkpoint_id), records=records",
        after="committed=self.checkpoint_id, records=records",
        caught_by=("tests/twophase/test_transitions.py::test_committed_never_goes_back",),
    ),
    Mutant(
        name="the last try that was aborted may still be decided",
        rule="R8",
        path="twophase/transitions.py",
        before="head.aborted_attempt >= scope.attempt",
        after="head.aborted_attempt > scope.attempt",
        caught_by=("tests/twophase/test_transitions.py::test_a_try_that_was_aborted_cannot_be_decided_any_more",),
    ),
    Mutant(
        name="a decision of an older epoch lands",
        rule="R1",
        path="twophase/transitions.py",
        before="    if aborted or scope.epoch != head.epoch or",
        after="    if aborted or",
        caught_by=("tests/twophase/test_transitions.py::test_a_decision_of_another_epoch_is_none",),
    ),
    Mutant(
        name="a repair of an older epoch lands",
        rule="R7",
        path="twophase/transitions.py",
        before="""        if (scope.incarnation, scope.epoch) != (head.incarnation, head.epoch):
""",
        after="""        if scope.incarnation != head.incarnation:
""",
        caught_by=("tests/twophase/test_repair.py::test_a_decision_is_mended_only_between_decided_and_committed",),
    ),
    Mutant(
        name="a repair replaces what is committed already",
        rule="R7",
        path="twophase/transitions.py",
        before="""        if number <= head.committed or head.record_of(number) != self.replaces:
""",
        after="""        if head.record_of(number) != self.replaces:
""",
        caught_by=("tests/twophase/test_repair.py::test_a_decision_is_mended_only_between_decided_and_committed",),
    ),
    Mutant(
        name="a thread that was slow puts an older head back",
        rule="R1",
        path="twophase/ownership.py",
        before="""            if seen.version > self.version:
""",
        after="""            if seen.version != self.version:
""",
        caught_by=("tests/twophase/test_ownership.py::test_a_thread_that_comes_late_does_not_put_an_older_head_back",),
    ),
    Mutant(
        name="what a sink is known to count goes down",
        rule="H26",
        path="twophase/ownership.py",
        before="{sink: max(number, self.counted.get(sink, -1)) for",
        after="{sink: number for",
        caught_by=("tests/twophase/test_ownership.py::test_h26_what_a_sink_is_known_to_count_never_goes_down",),
    ),
    Mutant(
        name="a driver whose own threads go on gives up",
        rule="R6",
        path="twophase/ownership.py",
        before="""                silent = 0  # others of our own go on, and they are not without end
""",
        after="",
        caught_by=("tests/twophase/test_ownership.py::test_others_of_our_own_may_come_first_many_times",),
    ),
    Mutant(
        name="another driver's head of the same version is taken up",
        rule="H29",
        path="twophase/ownership.py",
        before="""    if seen is None or Held.of(seen) != held:
""",
        after="""    if seen is None or seen.version != held.version:
""",
        caught_by=("tests/twophase/test_ownership.py::test_h29_a_process_takes_up_only_the_head_that_it_was_given",),
    ),
    Mutant(
        name="a record that a newer driver has pruned is called damaged",
        rule="H12",
        path="twophase/ownership.py",
        before="""    if seen is not None and seen.head.epoch != owned.head.epoch:
""",
        after="""    if seen is not None and seen.head.epoch < owned.head.epoch:
""",
        caught_by=("tests/twophase/test_ownership.py::test_a_missing_record_of_a_driver_that_is_behind_means_fenced",),
    ),
    Mutant(
        name="a driver does not notice that another one has claimed head",
        rule="R1",
        path="twophase/ownership.py",
        before="""    if seen is None or seen.head.epoch > known.head.epoch:
""",
        after="""    if seen is None:
""",
        caught_by=("tests/twophase/test_ownership.py::test_who_owns_head_is_asked_of_head",),
    ),
    Mutant(
        name="a swap that landed before a newer claim is taken for the driver's own head",
        rule="R1",
        path="twophase/ownership.py",
        before="""            if seen.head.epoch > (value if found else basis.head).epoch:
""",
        after="""            if not found and seen.head.epoch > basis.head.epoch:
""",
        caught_by=(
            "tests/twophase/test_ownership.py::test_a_swap_that_landed_before_a_newer_epoch_ends_in_fenced_too",
        ),
    ),
    Mutant(
        name="head forgets each swap with the next one",
        rule="H20",
        path="twophase/ownership.py",
        before="_NONCES_KEPT: Final = 8",
        after="_NONCES_KEPT: Final = 1",
        caught_by=("tests/twophase/test_ownership.py::test_a_swap_that_is_answered_is_not_asked_about",),
    ),
)
