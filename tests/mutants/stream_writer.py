"""The sink as a format of Spark's."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="a plan that another driver wrote over a format's is decided",
        rule="H25",
        path="spark_jobs/adapters/stream_writer.py",
        before="""for one in each.committables or ()], ends)
""",
        after="""for one in each.committables or ()])
""",
        caught_by=(
            "tests/spark_jobs/adapters/test_eos_format.py::test_h25_a_plan_that_another_driver_has_overwritten_is_not_decided",
        ),
    ),
    Mutant(
        name="a task of a format whose rows end too late prepares them",
        rule="docs/tutorial/own_job.md",
        path="spark_jobs/adapters/task_limit.py",
        before="""    for batch in chain(rows, [None]):
""",
        after="""    for batch in chain(rows):
""",
        caught_by=("tests/spark_jobs/adapters/test_task_limit.py::test_a_task_whose_rows_come_late_fails",),
    ),
    Mutant(
        name="a batch is decided although a task has not acknowledged",
        rule="R6",
        path="spark_jobs/adapters/stream_writer.py",
        before="""        if len(written) != len(messages) or len(plans) != 1:
""",
        after="""        if len(plans) != 1:
""",
        caught_by=("tests/spark_jobs/adapters/test_eos_format.py::test_acknowledgements_of_two_plans_decide_nothing",),
    ),
    Mutant(
        name="acknowledgements of two plans are one decision",
        rule="R6",
        path="spark_jobs/adapters/stream_writer.py",
        before="""        if len(written) != len(messages) or len(plans) != 1:
""",
        after="""        if len(written) != len(messages):
""",
        caught_by=("tests/spark_jobs/adapters/test_eos_format.py::test_acknowledgements_of_two_plans_decide_nothing",),
    ),
    Mutant(
        name="a task of another batch writes under this one's permit",
        rule="R5",
        path="spark_jobs/adapters/stream_writer.py",
        before="""        if context.getLocalProperty(_BATCH) != str(plan.checkpoint_id):
""",
        after="""        if not context.getLocalProperty(_BATCH):
""",
        caught_by=("tests/spark_jobs/adapters/test_eos_format.py::test_a_task_of_another_batch_writes_nothing",),
    ),
    Mutant(
        name="a spec that changes under a batch is decided",
        rule="R2",
        path="spark_jobs/adapters/stream_writer.py",
        before="""        if spec != digest_of(self._spec):
""",
        after="""        if not spec:
""",
        caught_by=("tests/spark_jobs/adapters/test_eos_format.py::test_a_spec_that_changes_under_a_batch_stops_it",),
    ),
    Mutant(
        name="an abort of an old driver rolls back what a newer one writes",
        rule="H5",
        path="spark_jobs/adapters/stream_writer.py",
        before="""            if not self._run or last != self._run or log.state("").newest_planned != number:
""",
        after="""            if log.state("").newest_planned != number:
""",
        caught_by=(
            "tests/spark_jobs/adapters/test_eos_format.py::test_who_does_not_know_who_has_planned_leaves_the_abort_to_the_next_start",
        ),
    ),
    Mutant(
        name="a decided batch that Spark runs again writes once more",
        rule="R4",
        path="spark_jobs/adapters/stream_writer.py",
        before="""        if plan.scope is None:
            for _ in iterator:
                pass
            return Written(plan.held, plan.spec, plan.ends, None)
""",
        after="""        if plan.scope is None:
            raise AssertionError
""",
        caught_by=("tests/spark_jobs/adapters/test_eos_format.py::test_a_batch_that_spark_forgot_is_written_once",),
    ),
    Mutant(
        name="a query with state is written without comparing its replays",
        rule="R4",
        path="spark_jobs/adapters/stream_writer.py",
        before="""        if (self._folder / "state").exists():
""",
        after="""        if (self._folder / "states").exists():
""",
        caught_by=("tests/spark_jobs/adapters/test_eos_format.py::test_a_query_with_state_is_refused",),
    ),
)
