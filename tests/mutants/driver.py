"""What the driver does to sinks and head: retries, sinks that are behind, restarts."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="a slot moves over a checkpoint that is lost",
        rule="H34",
        path="twophase/commits.py",
        before="    return {name: at for name in sinks if least <= (at :=",
        after="    return {name: at for name in sinks if -1 <= (at :=",
        caught_by=(
            "tests/twophase/test_two_logs.py::test_h34_a_reset_that_is_refused_moves_no_slot_over_what_is_lost",
        ),
    ),
    Mutant(
        name="what waits for a sink that joins is taken for decided by this epoch",
        rule="H32",
        path="twophase/backlog.py",
        before="        own = follower.older is None or record.checkpoint_id > follower.older\n",
        after="        own = True\n",
        caught_by=("tests/twophase/test_two_logs.py::test_a_sink_that_joins_may_be_past_what_waits_for_it",),
    ),
    Mutant(
        name="a sink may be behind by more bytes than it may",
        rule="docs/reference/checkpoints.md",
        path="twophase/backlog.py",
        before="""        return self.max_bytes is None or waiting_bytes <= self.max_bytes or waiting <= 1
""",
        after="""        return self.max_bytes is None or waiting_bytes <= self.max_bytes or waiting <= self.checkpoints
""",
        caught_by=("tests/twophase/test_backlog.py::test_bytes_count_but_never_hold_up_a_single_checkpoint",),
    ),
    Mutant(
        name="head calls committed what one sink has not committed",
        rule="R9",
        path="twophase/backlog.py",
        before="            return min(waiting) - 1 if waiting",
        after="            return max(waiting) - 1 if waiting",
        caught_by=("tests/twophase/test_backlog.py::test_r9_head_calls_committed_only_what_every_sink_has_committed",),
    ),
    Mutant(
        name="a sink that may outlast an outage gives up",
        rule="docs/reference/checkpoints.md",
        path="twophase/backlog.py",
        before="""                if not self.limit.outlasts_outages:
""",
        after="""                if self.limit.outlasts_outages:
""",
        caught_by=("tests/twophase/test_backlog.py::test_an_outage_is_outlasted_only_where_a_backlog_is_meant_to",),
    ),
    Mutant(
        name="an error of a thread that commits is told to nobody",
        rule="R7",
        path="twophase/backlog.py",
        before="""            self._error = self._error or error
""",
        after="""            self._error = self._error
""",
        caught_by=("tests/twophase/test_backlog.py::test_a_lost_committable_stops_the_pipeline",),
    ),
    Mutant(
        name="a sink that is behind commits the newest checkpoint first",
        rule="R10",
        path="twophase/backlog.py",
        before="""else follower.waiting[0]
""",
        after="""else follower.waiting[-1]
""",
        caught_by=(
            "tests/twophase/test_backlog.py::test_checkpoints_go_on_until_so_many_wait_and_are_committed_in_order",
        ),
    ),
    Mutant(
        name="a checkpoint leaves a sink's queue before it is committed there",
        rule="R10",
        path="twophase/backlog.py",
        before="""        self._carry_out(show(self._owned, alone, own=own), sink)
        with self._changed:
            follower.done()
            self._changed.notify_all()
""",
        after="""        with self._changed:
            follower.done()
            self._changed.notify_all()
        self._carry_out(show(self._owned, alone, own=own), sink)
""",
        caught_by=("tests/twophase/test_backlog.py::test_who_waits_for_room_is_let_go_at_the_end",),
    ),
    Mutant(
        name="a pipeline that stops waits for a sink that is away without end",
        rule="docs/how-to/operations.md",
        path="twophase/backlog.py",
        before="""            return left_at > 0.0 and time.monotonic() > left_at
""",
        after="""            return left_at < 0.0
""",
        caught_by=("tests/twophase/test_backlog.py::test_who_stops_leaves_a_sink_that_is_away_to_the_next_start",),
    ),
    Mutant(
        name="a driver that is fenced says that rows are lost",
        rule="H12",
        path="twophase/gather.py",
        before="zip(kinds, (0, 1, 3), strict=True)",
        after="zip(kinds, (1, 0, 3), strict=True)",
        caught_by=("tests/twophase/test_gather.py::test_of_two_errors_the_worse_one_is_raised",),
    ),
    Mutant(
        name="a sink that is away hides that rows are lost in another",
        rule="R7",
        path="twophase/gather.py",
        before="zip(kinds, (0, 1, 3), strict=True)",
        after="zip(kinds, (0, 3, 1), strict=True)",
        caught_by=("tests/twophase/test_gather.py::test_an_error_holds_up_nobody_and_the_worst_is_raised",),
    ),
    Mutant(
        name="a consumer group that cannot be written stops the pipeline",
        rule="R9",
        path="twophase/effects.py",
        before="        except SourceError as error:",
        after="        except HeadUnknownError as error:",
        caught_by=("tests/twophase/test_effects.py::test_a_consumer_group_that_cannot_be_told_is_a_warning",),
    ),
    Mutant(
        name="a start deletes records that head points at",
        rule="R9",
        path="twophase/effects.py",
        before="scope.epoch < head.epoch and name not in kept",
        after="scope.epoch < head.epoch",
        caught_by=("tests/twophase/test_effects.py::test_records_that_nobody_points_at_are_swept",),
    ),
    Mutant(
        name="a sink is asked for one permit in an epoch only",
        rule="R5",
        path="twophase/effects.py",
        before="if not (sink.permits_once and name in self.permitted)]",
        after="if name not in self.permitted]",
        caught_by=("tests/twophase/test_effects.py::test_checkpoints_and_a_second_driver",),
    ),
    Mutant(
        name="two threads use one committer at once",
        rule="R10",
        path="twophase/effects.py",
        before="""            with self.turns[name]:
                return call()
""",
        after="""            return call()
""",
        caught_by=("tests/twophase/test_backlog.py::test_an_aborted_checkpoint_touches_none_of_those_that_wait",),
    ),
    Mutant(
        name="a sink that refuses to commit ends a reset that should tell it",
        rule="R2",
        path="twophase/effects.py",
        before="""        if not action.tell_refusals:
            raise
""",
        after="""        if action.tell_refusals:
            raise
""",
        caught_by=(
            "tests/connectors/sql/sqlite/test_sink_protocol.py::test_decided_rows_that_cannot_be_applied_are_given_up_on_purpose_only",
        ),
    ),
    Mutant(
        name="a commit that is to be tried later is tried at once and without end",
        rule="R7",
        path="twophase/effects.py",
        before="""        if wait_s is None:
""",
        after="""        if wait_s is None and action.repeated < 0:
""",
        caught_by=(
            "tests/twophase/test_effects.py::test_a_commit_that_stays_late_fails_without_loss_and_the_next_start_ends_it",
        ),
    ),
    Mutant(
        name="an error that is not an outage is tried again",
        rule="R7",
        path="twophase/retry.py",
        before="            SinkUnavailableError,\n",
        after="            Exception,\n",
        caught_by=("tests/twophase/test_policies.py::TestPatience::test_other_errors_are_not_tried_again",),
    ),
    Mutant(
        name="a sink whose locks are never released is waited for without end",
        rule="R7",
        path="twophase/retry.py",
        before="        return None if sum(waits) > self.deadline_s or",
        after="        return None if",
        caught_by=("tests/twophase/test_policies.py::TestPatience::test_waits_for_late_commits_grow_and_end",),
    ),
    Mutant(
        name="failures of an earlier interval count against a pipeline",
        rule="docs/how-to/operations.md",
        path="twophase/restart.py",
        before="if now_s - each < self.interval_s)",
        after="if now_s >= each)",
        caught_by=(
            "tests/twophase/test_policies.py::TestRestart::test_failure_rate_gives_up_when_more_come_in_an_interval_than_may",
        ),
    ),
    Mutant(
        name="a pipeline restarts once more than it may",
        rule="docs/how-to/operations.md",
        path="twophase/restart.py",
        before="""        return self.delay_s if self.used <= self.attempts else None
""",
        after="""        return self.delay_s if self.used <= self.attempts + 1 else None
""",
        caught_by=("tests/twophase/test_policies.py::TestRestart::test_fixed_delay",),
    ),
    Mutant(
        name="a failure after a long time without one waits as the last of many",
        rule="docs/how-to/operations.md",
        path="twophase/restart.py",
        before="""            self.used = 0
""",
        after="""            self.used = min(self.used, self.used)
""",
        caught_by=(
            "tests/twophase/test_policies.py::TestRestart::test_exponential_delay_begins_again_after_a_quiet_time",
        ),
    ),
    Mutant(
        name="a replay goes on although a thread that commits has failed",
        rule="R7",
        path="twophase/driver.py",
        before="""        self.check()
        known = owned.head.completed
""",
        after="""        known = owned.head.completed
""",
        caught_by=("tests/twophase/test_backlog.py::test_a_lost_committable_stops_the_pipeline",),
    ),
)
