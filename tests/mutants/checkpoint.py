"""One checkpoint from its plan to its end (R4 to R10)."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_H35: Final = "tests/twophase/test_checkpoint.py::test_h35_"

MUTANTS: Final = (
    Mutant(
        name="a decision does not compare schemas",
        rule="H35",
        path="twophase/checkpoint.py",
        before="    return wrong or other_schema(scope.checkpoint_id, owned.head.schemas, done.schemas)\n",
        after="    return wrong\n",
        caught_by=(f"{_H35}records_that_were_decoded_with_another_schema_are_not_decided",),
    ),
    Mutant(
        name="head forgets the schemas of earlier records",
        rule="H35",
        path="twophase/transitions.py",
        before="            schemas=joined(head.schemas, self.record.schemas),\n",
        after="            schemas=self.record.schemas,\n",
        caught_by=(f"{_H35}a_decision_keeps_the_schemas_of_its_records",),
    ),
    Mutant(
        name="a repair does not compare schemas",
        rule="H35",
        path="twophase/repair.py",
        before="        made = wrong or rebuild_record(",
        after="        made = rebuild_record(",
        caught_by=("tests/twophase/test_repair.py::test_h35_what_is_decoded_with_another_schema_is_not_written_again",),
    ),
    Mutant(
        name="a decision is taken from acknowledgements that are not whole",
        rule="R6",
        path="twophase/checkpoint.py",
        before="    wrong = mistake(scope, sinks, done.committables)\n",
        after="    wrong = None\n",
        caught_by=("tests/twophase/test_checkpoint.py::test_acknowledgements_must_be_of_this_run",),
    ),
    Mutant(
        name="an abort rolls back before its swap has won",
        rule="R8",
        path="twophase/checkpoint.py",
        before="""    yield from owned.swap(Abort(scope.checkpoint_id, scope.attempt), "abort")
    yield from close(owned.head, scope, sinks=owned.present)
""",
        after="""    yield from close(owned.head, scope, sinks=owned.present)
    yield from owned.swap(Abort(scope.checkpoint_id, scope.attempt), "abort")
""",
        caught_by=("tests/twophase/test_checkpoint.py::test_a_failed_job_is_aborted_by_a_swap_and_then_closed",),
    ),
    Mutant(
        name="a close lists what is prepared before it has deleted the permits",
        rule="R9",
        path="twophase/checkpoint.py",
        before="""    yield from messages.Revoke(scope, counted, sinks)
    listed = yield from messages.ListPrepared(head.incarnation, scope.checkpoint_id, sinks)
""",
        after="""    listed = yield from messages.ListPrepared(head.incarnation, scope.checkpoint_id, sinks)
    yield from messages.Revoke(scope, counted, sinks)
""",
        caught_by=("tests/twophase/test_checkpoint.py::test_the_order_of_r10",),
    ),
    Mutant(
        name="a replay of other offsets than those decided goes on",
        rule="R4",
        path="twophase/checkpoint.py",
        before="if record.offsets_log != begin.offsets_log:",
        after="if not record.offsets_log:",
        caught_by=("tests/twophase/test_checkpoint.py::test_a_replay_of_other_offsets_is_refused",),
    ),
    Mutant(
        name="a replay with other rows than those decided goes on",
        rule="R4",
        path="twophase/checkpoint.py",
        before="""        _check_same(record, found)
""",
        after="""        pass
""",
        caught_by=("tests/twophase/test_checkpoint.py::test_a_replay_with_other_rows_is_refused",),
    ),
    Mutant(
        name="a close rolls back what another epoch has prepared",
        rule="R9",
        path="twophase/checkpoint.py",
        before="    same = (other.epoch, other.checkpoint_id) == (scope.epoch, scope.checkpoint_id)",
        after="    same = other.checkpoint_id == scope.checkpoint_id",
        caught_by=("tests/twophase/test_checkpoint.py::test_what_is_not_of_this_run_is_left_alone_by_the_close",),
    ),
    Mutant(
        name="a plan may end before what is completed",
        rule="R6",
        path="twophase/checkpoint.py",
        before="""    if is_before(end, start):
""",
        after="""    if end < 0:
""",
        caught_by=("tests/twophase/test_checkpoint.py::test_what_spark_may_not_run",),
    ),
    Mutant(
        name="offsets go to the consumer group before head calls them committed",
        rule="R9",
        path="twophase/checkpoint.py",
        before="""    yield from owned.swap(Committed(record.checkpoint_id, retained), "committed")
    yield from tell(owned, record, before)
""",
        after="""    yield from tell(owned, record, before)
    yield from owned.swap(Committed(record.checkpoint_id, retained), "committed")
""",
        caught_by=("tests/twophase/test_checkpoint.py::test_a_replay_goes_on_with_what_was_not_finished",),
    ),
    Mutant(
        name="records that head still points at are pruned",
        rule="R9",
        path="twophase/checkpoint.py",
        before="""    kept = frozenset(owned.head.records)
""",
        after="""    kept = frozenset[RecordRef]()
""",
        caught_by=("tests/twophase/test_checkpoint.py::test_the_order_of_r10",),
    ),
    Mutant(
        name="a replay leaves uncommitted what a crash has left decided",
        rule="R4",
        path="twophase/checkpoint.py",
        before="""    if is_new or owned.head.committed < record.checkpoint_id:
""",
        after="""    if is_new:
""",
        caught_by=("tests/twophase/test_checkpoint.py::test_a_replay_goes_on_with_what_was_not_finished",),
    ),
    Mutant(
        name="a further try begins while the one before may still be decided",
        rule="R8",
        path="twophase/checkpoint.py",
        before="""        yield from _abort(owned, scope, answer.error)
        scope = replace(""",
        after="        scope = replace(",
        caught_by=(
            "tests/twophase/test_checkpoint.py::test_a_job_that_can_do_otherwise_runs_again_under_the_next_try_when_the_first_is_ended",
        ),
    ),
    Mutant(
        name="a further try has the ids of the one before",
        rule="R8",
        path="twophase/checkpoint.py",
        before="""attempt=owned.head.next_attempt(scope.checkpoint_id))
        yield""",
        after="""attempt=scope.attempt)
        yield""",
        caught_by=(
            "tests/twophase/test_checkpoint.py::test_a_job_that_can_do_otherwise_runs_again_under_the_next_try_when_the_first_is_ended",
        ),
    ),
    Mutant(
        name="head names a record that is not stored yet",
        rule="R6",
        path="twophase/checkpoint.py",
        before="""    yield from put
    yield from owned.swap(Complete(record, put.ref, begin.began), "decide")
""",
        after="""    yield from owned.swap(Complete(record, put.ref, begin.began), "decide")
    yield from put
""",
        caught_by=("tests/twophase/test_checkpoint.py::test_the_order_of_r10",),
    ),
    Mutant(
        name="at-least-once notes a checkpoint that not all tasks have written",
        rule="R6",
        path="twophase/checkpoint.py",
        before="""    if error := _mistake(owned, scope, sinks, answer):
        raise error
""",
        after="",
        caught_by=("tests/twophase/test_at_least_once.py::test_what_not_all_tasks_have_committed_is_not_noted",),
    ),
    Mutant(
        name="a permit is not asked for before the job",
        rule="R5",
        path="twophase/checkpoint.py",
        before="""    if not begin.permitted:
""",
        after="""    if begin.permitted:
""",
        caught_by=("tests/twophase/test_checkpoint.py::test_the_order_of_r10",),
    ),
    Mutant(
        name="a commit that is to be tried later is taken for done",
        rule="R7",
        path="twophase/commits.py",
        before="""        waiting = _with(waiting, outcomes, CommitOutcome.RETRY_LATER)
""",
        after="""        waiting = {}
""",
        caught_by=("tests/twophase/test_checkpoint.py::test_lost_is_said_after_the_late_ones_are_committed",),
    ),
    Mutant(
        name="what is lost is passed over",
        rule="R7",
        path="twophase/commits.py",
        before="""        raise _lost_error(record, lost)
""",
        after="""        return
""",
        caught_by=("tests/twophase/test_checkpoint.py::test_lost_stops_the_pipeline_with_ids_and_ranges",),
    ),
    Mutant(
        name="a witness that a newer driver has pruned is called lost",
        rule="H12",
        path="twophase/commits.py",
        before="seen.head.epoch != owned.head.epoch:",
        after="seen.head.epoch < owned.head.epoch:",
        caught_by=("tests/twophase/test_checkpoint.py::test_lost_is_fenced_when_a_newer_driver_pruned_the_witness",),
    ),
    Mutant(
        name="a checkpoint is counted before it is committed",
        rule="H26",
        path="twophase/commits.py",
        before="""    yield from commit_everywhere(owned, record, own=own)
    yield from count(owned, record.checkpoint_id, record.committables)
""",
        after="""    yield from count(owned, record.checkpoint_id, record.committables)
    yield from commit_everywhere(owned, record, own=own)
""",
        caught_by=("tests/twophase/test_checkpoint.py::test_a_replay_goes_on_with_what_was_not_finished",),
    ),
    Mutant(
        name="a checkpoint is counted although one before it is lost",
        rule="H26",
        path="twophase/commits.py",
        before=" if n not in lost and counts.get(n) == checkpoint_id - 1}",
        after=" if n not in lost}",
        caught_by=("tests/twophase/test_repair.py::test_a_sink_that_cannot_take_what_it_holds_is_not_claimed",),
    ),
    Mutant(
        name="an acknowledgement of an earlier try counts",
        rule="R6",
        path="twophase/acknowledged.py",
        before="t.scope != scope or",
        after="t.scope.checkpoint_id != scope.checkpoint_id or",
        caught_by=("tests/twophase/test_checkpoint.py::test_acknowledgements_must_be_of_this_run",),
    ),
    Mutant(
        name="two attempts of one task count as two tasks",
        rule="H1",
        path="twophase/acknowledged.py",
        before="""        if len(tasks[sink]) < len(transactions):
""",
        after="""        if not tasks[sink] and transactions:
""",
        caught_by=("tests/twophase/test_checkpoint.py::test_acknowledgements_must_be_of_this_run",),
    ),
    Mutant(
        name="a task that has not acknowledged is not missed",
        rule="R6",
        path="twophase/acknowledged.py",
        before="""    if len(everybody) <= max(everybody, default=-1):
""",
        after="""    if len(everybody) < max(everybody, default=-1):
""",
        caught_by=("tests/twophase/test_checkpoint.py::test_acknowledgements_must_be_of_this_run",),
    ),
    Mutant(
        name="sinks may share some tasks and not all",
        rule="R6",
        path="twophase/acknowledged.py",
        before="""            if tasks[other] != numbers:
""",
        after="""            if tasks[other].isdisjoint(numbers):
""",
        caught_by=("tests/twophase/test_checkpoint.py::test_sinks_have_all_their_tasks_in_common_or_none",),
    ),
    Mutant(
        name="a sink that has not acknowledged is not missed",
        rule="R6",
        path="twophase/acknowledged.py",
        before="""    if sorted(committables) != sorted(sinks):
""",
        after="""    if not set(committables) <= set(sinks):
""",
        caught_by=("tests/twophase/test_checkpoint.py::test_acknowledgements_must_be_of_this_run",),
    ),
    Mutant(
        name="digests of tasks do not add up modulo 2**64",
        rule="R4",
        path="twophase/values.py",
        before="sum(c.digest for c in group) % 2**64)",
        after="sum(c.digest for c in group))",
        caught_by=("tests/twophase/test_checkpoint.py::test_r4_digests_of_tasks_add_up_modulo_2_to_the_64",),
    ),
    Mutant(
        name="a repair of a repaired transaction looks for the wrong witness",
        rule="R7",
        path="twophase/values.py",
        before="""    return first if first is not None else committable.transaction
""",
        after="""    return committable.transaction
""",
        caught_by=("tests/twophase/test_repair.py::test_what_is_lost_once_more_keeps_its_origin",),
    ),
)
