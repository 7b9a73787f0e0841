"""A run: its epochs, restarts and stops, and which error is which."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="a checkpoint counts as handled before the listener has returned",
        rule="docs/how-to/notifications.md, A listener in Python",
        path="spark_jobs/observe/checkpoint_listener.py",
        before="""                self._listener.on_checkpoint_completed(found)
                cursor = _Cursor(found.incarnation, found.checkpoint_id)
                _write(self._documents, cursor)
""",
        after="""                cursor = _Cursor(found.incarnation, found.checkpoint_id)
                _write(self._documents, cursor)
                self._listener.on_checkpoint_completed(found)
""",
        caught_by=("tests/spark_jobs/observe/test_checkpoint_listener.py::test_a_kill_between_visible_and_called",),
    ),
    Mutant(
        name="the first checkpoint of a pipeline is taken for an old one",
        rule="docs/how-to/notifications.md, A listener in Python",
        path="spark_jobs/observe/checkpoint_listener.py",
        before="            _write(self._documents, self._cursor)\n        run =",
        after="        run =",
        caught_by=("tests/spark_jobs/observe/test_checkpoint_listener.py::test_a_kill_between_visible_and_called",),
    ),
    Mutant(
        name="a notification follows a name to a metadata service",
        rule="docs/how-to/notifications.md",
        path="spark_jobs/observe/notifications/webhook.py",
        before="        check_address(str(address[0]))\n",
        after="",
        caught_by=("tests/spark_jobs/observe/test_notifications.py::test_no_request_to_a_metadata_service",),
    ),
    Mutant(
        name="notifications wait without a bound",
        rule="docs/how-to/notifications.md",
        path="spark_jobs/observe/notifications/sender.py",
        before="            if len(self._waiting) > MOST:\n",
        after="            if len(self._waiting) > 10 * MOST:\n",
        caught_by=(
            "tests/spark_jobs/observe/test_notifications.py::test_the_queue_is_bounded_and_says_how_many_are_lost",
        ),
    ),
    Mutant(
        name="an error that no restart cures is tried again",
        rule="docs/how-to/operations.md",
        path="spark_jobs/run/runner.py",
        before="random.random()) if error.retriable else None",
        after="random.random())",
        caught_by=("tests/spark_jobs/run/test_curable.py::test_what_no_restart_can_cure_ends_the_run_at_once",),
    ),
    Mutant(
        name="a start goes on without a sink whose rows wait as prepared transactions",
        rule="docs/reference/sinks.md, Sinks that are slow, or away",
        path="spark_jobs/run/open_driver.py",
        before="outlasts_outages=has_log)",
        after="outlasts_outages=True)",
        caught_by=("tests/spark_jobs/run/test_limits.py::test_only_a_sink_with_a_log_may_be_away",),
    ),
    Mutant(
        name="a stop hides that decided rows wait for their commit",
        rule="docs/how-to/operations.md",
        path="spark_jobs/run/runner.py",
        before="                    if not isinstance(error, PrepareError):",
        after="                    if isinstance(error, PrepareError):",
        caught_by=("tests/spark_jobs/run/test_restart.py::test_a_stop_hides_no_other_error",),
    ),
    Mutant(
        name="a restart takes over from the driver that has superseded its run",
        rule="R1",
        path="spark_jobs/run/runner.py",
        before="""                follows=self._held,
""",
        after="",
        caught_by=(
            "tests/spark_jobs/run/test_run.py::test_r1_a_restart_does_not_take_over_from_a_run_that_has_claimed_meanwhile",
        ),
    ),
    Mutant(
        name="two epochs of a run have one session",
        rule="H20",
        path="spark_jobs/run/runner.py",
        before="""        self._epochs += 1
""",
        after="",
        caught_by=("tests/spark_jobs/run/test_run.py::test_h20_no_nonce_of_a_run_is_used_twice",),
    ),
    Mutant(
        name="a run does not repair what a power cut has left",
        rule="docs/explanation/protocol.md",
        path="spark_jobs/run/recovery.py",
        before="""            mend(driver, log, told, overran)
""",
        after="            pass\n",
        caught_by=("tests/spark_jobs/run/test_run.py::test_what_a_power_cut_has_left_is_gone_before_spark_begins",),
    ),
    Mutant(
        name="splits that a replanned checkpoint has found are found a second time",
        rule="R6",
        path="spark_jobs/run/recovery.py",
        before="""                keep_found(driver, sources, log)
""",
        after="                pass\n",
        caught_by=(
            "tests/spark_jobs/run/test_run.py"
            "::test_a_split_that_a_replanned_checkpoint_has_found_begins_where_it_was_found",
        ),
    ),
    Mutant(
        name="steps that keep state may change places",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/run/runner.py",
        before="""            check_in_place(plans.kept(open_documents(spec), driver.owned.incarnation), plan)
""",
        after="",
        caught_by=("tests/spark_jobs/run/test_run.py::test_steps_that_keep_state_do_not_begin_in_each_others_places",),
    ),
    Mutant(
        name="a stop leaves sinks behind that it could wait for",
        rule="docs/how-to/operations.md",
        path="spark_jobs/run/query_run.py",
        before="""            self.driver.drain()
""",
        after="",
        caught_by=(
            "tests/spark_jobs/run/test_query_run.py::test_a_stop_between_two_batches_waits_for_sinks_that_are_behind",
        ),
    ),
    Mutant(
        name="an error of a batch hides behind a stop",
        rule="docs/how-to/operations.md",
        path="spark_jobs/run/query_run.py",
        before="""        has_failed = self.failure is not None and not isinstance(self.failure, StopRequestedError)
""",
        after="""        has_failed = self.failure is not None and not self.control.is_stopping()
""",
        caught_by=("tests/spark_jobs/run/test_query_run.py::test_a_stop_hides_no_error_of_the_checkpoint_that_it_met",),
    ),
    Mutant(
        name="a run does not keep of which steps its state is",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/run/query_run.py",
        before="""                self._keep_plan()
""",
        after="",
        caught_by=(
            "tests/spark_jobs/run/test_query_run.py::test_the_steps_are_kept_with_the_first_batch_and_not_before",
        ),
    ),
    Mutant(
        name="a record that looks like an error of ours is taken for one",
        rule="R7",
        path="spark_jobs/session/failures.py",
        before='rf"eos:{TOKEN}:(?P<content>',
        after='rf"eos:[0-9a-f]+:(?P<content>',
        caught_by=(
            "tests/spark_jobs/session/test_failures.py::test_a_record_that_looks_like_our_error_is_not_taken_for_one",
        ),
    ),
    Mutant(
        name="state that Spark cannot read is tried again without end",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/session/failures.py",
        before="""    if other := _OTHER_STATE.search(text):
""",
        after="""    if (other := _OTHER_STATE.search(text)) and not other:
""",
        caught_by=(
            "tests/spark_jobs/session/test_failures.py::test_state_that_spark_cannot_read_is_told_in_words_and_not_tried_again",
        ),
    ),
    Mutant(
        name="a worker that lacks a module is tried again without end",
        rule="docs/how-to/deploying.md",
        path="spark_jobs/session/failures.py",
        before="""    if lacking := _WORKER.search(text):
""",
        after="""    if (lacking := _WORKER.search(text)) and not lacking:
""",
        caught_by=("tests/spark_jobs/session/test_failures.py::test_what_a_worker_lacks_is_cured_by_no_restart",),
    ),
    Mutant(
        name="a checkpoint begins after a request to stop",
        rule="docs/how-to/operations.md",
        path="spark_jobs/run/control.py",
        before="""            if self.ends_query():
                raise StopRequestedError
""",
        after="",
        caught_by=("tests/spark_jobs/run/test_control.py::test_no_checkpoint_begins_after_the_request",),
    ),
    Mutant(
        name="a checkpoint begins after a request to restart",
        rule="docs/how-to/watching.md",
        path="spark_jobs/run/control.py",
        before="self.is_stopping() or self.restart_requested or self.caught_up\n",
        after="self.is_stopping() or self.caught_up\n",
        caught_by=("tests/spark_jobs/run/test_control.py::test_no_checkpoint_begins_after_the_request",),
    ),
    Mutant(
        name="a checkpoint begins after the query has caught up",
        rule="docs/reference/spec.md",
        path="spark_jobs/run/control.py",
        before="self.is_stopping() or self.restart_requested or self.caught_up\n",
        after="self.is_stopping() or self.restart_requested\n",
        caught_by=("tests/spark_jobs/run/test_control.py::test_no_checkpoint_begins_after_the_request",),
    ),
    Mutant(
        name="a restart on request ends the run",
        rule="docs/how-to/watching.md",
        path="spark_jobs/run/runner.py",
        before="                if not lasting.restarts.begin() and not self._is_more_readable(lasting):\n",
        after="                if not self._is_more_readable(lasting):\n",
        caught_by=(
            "tests/spark_jobs/run/test_restart.py::test_a_request_starts_the_query_again_and_is_answered_when_it_runs",
        ),
    ),
    Mutant(
        name="a second request to stop waits for the checkpoint as the first did",
        rule="docs/how-to/operations.md",
        path="spark_jobs/run/control.py",
        before="""            if self.abort_running and running is not None:
""",
        after="""            if not self.abort_running and running is not None:
""",
        caught_by=("tests/spark_jobs/run/test_control.py::test_a_second_request_cancels_it",),
    ),
    Mutant(
        name="a stop does not wait for the checkpoint under way",
        rule="docs/how-to/operations.md",
        path="spark_jobs/run/control.py",
        before="""        self._begin()
        try:
            if self.ends_query""",
        after="""        try:
            if self.ends_query""",
        caught_by=("tests/spark_jobs/run/test_control.py::test_the_running_checkpoint_is_waited_for",),
    ),
)
