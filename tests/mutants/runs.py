"""A run: its epochs, restarts, stops, and what is asked of it."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="an error that no restart cures is tried again",
        rule="docs/operations.md",
        path="spark_jobs/runner.py",
        before="random.random()) if error.retriable else None",
        after="random.random())",
        caught_by=("tests/test_runner_tolerance.py::test_what_no_restart_can_cure_ends_the_run_at_once",),
    ),
    Mutant(
        name="a stop hides that decided rows wait for their commit",
        rule="docs/operations.md",
        path="spark_jobs/runner.py",
        before="                    if not isinstance(error, PrepareError):",
        after="                    if isinstance(error, PrepareError):",
        caught_by=("tests/test_runner_restart.py::test_a_stop_hides_no_other_error",),
    ),
    Mutant(
        name="a restart takes over from the driver that has superseded its run",
        rule="R1",
        path="spark_jobs/runner.py",
        before="""                follows=self._held,
""",
        after="",
        caught_by=(
            "tests/test_runner_run.py::test_r1_a_restart_does_not_take_over_from_a_run_that_has_claimed_meanwhile",
        ),
    ),
    Mutant(
        name="two epochs of a run have one session",
        rule="H20",
        path="spark_jobs/runner.py",
        before="""        self._epochs += 1
""",
        after="",
        caught_by=("tests/test_runner_run.py::test_h20_no_nonce_of_a_run_is_used_twice",),
    ),
    Mutant(
        name="a run does not repair what a power cut has left",
        rule="docs/protocol.md",
        path="spark_jobs/runner.py",
        before="""            mend(driver, log, self.listener)
""",
        after="",
        caught_by=("tests/test_runner_run.py::test_what_a_power_cut_has_left_is_gone_before_spark_begins",),
    ),
    Mutant(
        name="steps that keep state may change places",
        rule="docs/savepoints.md",
        path="spark_jobs/runner.py",
        before="""            check_in_place(plans.kept(log.location, driver.owned.incarnation), plan)
""",
        after="",
        caught_by=("tests/test_runner_run.py::test_steps_that_keep_state_do_not_begin_in_each_others_places",),
    ),
    Mutant(
        name="a stop leaves sinks behind that it could wait for",
        rule="docs/operations.md",
        path="spark_jobs/epoch.py",
        before="""            self.driver.drain()
""",
        after="",
        caught_by=("tests/test_runner_epoch.py::test_a_stop_between_two_batches_waits_for_sinks_that_are_behind",),
    ),
    Mutant(
        name="an error of a batch hides behind a stop",
        rule="docs/operations.md",
        path="spark_jobs/epoch.py",
        before="""        if self.failure is not None and not isinstance(self.failure, StopRequestedError):
""",
        after="""        if self.failure is not None and not self.control.is_stopping():
""",
        caught_by=("tests/test_runner_epoch.py::test_a_stop_hides_no_error_of_the_checkpoint_that_it_met",),
    ),
    Mutant(
        name="a run does not keep of which steps its state is",
        rule="docs/savepoints.md",
        path="spark_jobs/epoch.py",
        before="""                self._keep_plan()
""",
        after="",
        caught_by=("tests/test_runner_epoch.py::test_the_steps_are_kept_with_the_first_batch_and_not_before",),
    ),
    Mutant(
        name="a record that looks like an error of ours is taken for one",
        rule="R7",
        path="spark_jobs/failures.py",
        before='rf"eos:{TOKEN}:(?P<content>',
        after='rf"eos:[0-9a-f]+:(?P<content>',
        caught_by=("tests/test_runner_failures.py::test_a_record_that_looks_like_our_error_is_not_taken_for_one",),
    ),
    Mutant(
        name="state that Spark cannot read is tried again without end",
        rule="docs/savepoints.md",
        path="spark_jobs/failures.py",
        before="""    if other := _OTHER_STATE.search(text):
""",
        after="""    if (other := _OTHER_STATE.search(text)) and not other:
""",
        caught_by=(
            "tests/test_runner_failures.py::test_state_that_spark_cannot_read_is_told_in_words_and_not_tried_again",
        ),
    ),
    Mutant(
        name="a worker that lacks a module is tried again without end",
        rule="docs/deploying.md",
        path="spark_jobs/failures.py",
        before="""    if lacking := _WORKER.search(text):
""",
        after="""    if (lacking := _WORKER.search(text)) and not lacking:
""",
        caught_by=("tests/test_runner_failures.py::test_what_a_worker_lacks_is_cured_by_no_restart",),
    ),
    Mutant(
        name="a stop does not wait for the checkpoint under way",
        rule="docs/operations.md",
        path="spark_jobs/control.py",
        before="""        self._idle.clear()
        try:
            if self.is_stopping""",
        after="""        try:
            if self.is_stopping""",
        caught_by=("tests/test_runner_control.py::test_the_running_checkpoint_is_waited_for",),
    ),
    Mutant(
        name="a pipeline whose process was killed is taken for running",
        rule="docs/operations.md",
        path="spark_jobs/presence.py",
        before="""            if _is_free(file.fileno()):
                return None
""",
        after="""            _is_free(file.fileno())
""",
        caught_by=("tests/test_requests.py::test_who_runs_it_is_seen_until_the_process_dies",),
    ),
    Mutant(
        name="the folder of the next life is deleted with the old one's",
        rule="docs/operations.md",
        path="spark_jobs/deletion.py",
        before=" if not path.name.startswith(reset.head.incarnation))",
        after=")",
        caught_by=("tests/test_deletion.py::test_the_life_that_a_supervisor_starts_meanwhile_stays",),
    ),
    Mutant(
        name="a batch is decided although a task has not acknowledged",
        rule="R6",
        path="spark_jobs/stream_writer.py",
        before="""        if len(written) != len(messages) or len(plans) != 1:
""",
        after="""        if len(plans) != 1:
""",
        caught_by=("tests/test_eos_format.py::test_acknowledgements_of_two_plans_decide_nothing",),
    ),
    Mutant(
        name="acknowledgements of two plans are one decision",
        rule="R6",
        path="spark_jobs/stream_writer.py",
        before="""        if len(written) != len(messages) or len(plans) != 1:
""",
        after="""        if len(written) != len(messages):
""",
        caught_by=("tests/test_eos_format.py::test_acknowledgements_of_two_plans_decide_nothing",),
    ),
    Mutant(
        name="a task of another batch writes under this one's permit",
        rule="R5",
        path="spark_jobs/stream_writer.py",
        before="""        if context.getLocalProperty(_BATCH) != str(plan.checkpoint_id):
""",
        after="""        if not context.getLocalProperty(_BATCH):
""",
        caught_by=("tests/test_eos_format.py::test_a_task_of_another_batch_writes_nothing",),
    ),
    Mutant(
        name="a spec that changes under a batch is decided",
        rule="R2",
        path="spark_jobs/stream_writer.py",
        before="""        if spec != digest_of(self._spec):
""",
        after="""        if not spec:
""",
        caught_by=("tests/test_eos_format.py::test_a_spec_that_changes_under_a_batch_stops_it",),
    ),
    Mutant(
        name="an abort of an old driver rolls back what a newer one writes",
        rule="H5",
        path="spark_jobs/stream_writer.py",
        before="""            if not run or run != self._run or log.state("").newest_planned != number:
""",
        after="""            if log.state("").newest_planned != number:
""",
        caught_by=(
            "tests/test_eos_format.py::test_who_does_not_know_who_has_planned_leaves_the_abort_to_the_next_start",
        ),
    ),
    Mutant(
        name="a decided batch that Spark runs again writes once more",
        rule="R4",
        path="spark_jobs/stream_writer.py",
        before="""        if plan.scope is None:
            for _ in iterator:
                pass
            return Written(plan.held, plan.spec, None)
""",
        after="""        if plan.scope is None:
            raise AssertionError
""",
        caught_by=("tests/test_eos_format.py::test_a_batch_that_spark_forgot_is_written_once",),
    ),
    Mutant(
        name="a query with state is written without comparing its replays",
        rule="R4",
        path="spark_jobs/stream_writer.py",
        before="""        if (self._folder / "state").exists():
""",
        after="""        if (self._folder / "states").exists():
""",
        caught_by=("tests/test_eos_format.py::test_a_query_with_state_is_refused",),
    ),
)
