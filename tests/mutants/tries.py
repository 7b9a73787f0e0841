"""What follows a failed try of a batch, and the records that are put aside."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="a worker keeps state on a disk of its own",
        rule="README.md, On a cluster",
        path="spark_jobs/run/shared_state.py",
        before="if not each.location})",
        after="if not each})",
        caught_by=("tests/spark_jobs/run/test_shared_state.py::test_a_worker_with_a_disk_of_its_own_is_named",),
    ),
    Mutant(
        name="with state a batch runs twice in the query that met a row that is refused",
        rule="R4",
        path="spark_jobs/batch/attempts.py",
        before="""        if self.stateful:
            self.period.end_query(self.checkpoint_id, reason)
            return False
""",
        after="",
        caught_by=("tests/spark_jobs/batch/test_attempts.py::test_with_state_the_next_query_sifts_its_first_try",),
    ),
    Mutant(
        name="equal rows are looked for again and again",
        rule="H15",
        path="spark_jobs/batch/attempts.py",
        before="or self._has_looked or not self.may_meet:",
        after="or not self.may_meet:",
        caught_by=("tests/spark_jobs/batch/test_attempts.py::test_equal_rows_are_looked_for_once",),
    ),
    Mutant(
        name="the try after a look looks again",
        rule="H15",
        path="spark_jobs/batch/attempts.py",
        before="""        self.locked = None
        return Failed(locked, again=True)
""",
        after="""        return Failed(locked, again=True)
""",
        caught_by=("tests/spark_jobs/batch/test_attempts.py::test_equal_rows_are_looked_for_once",),
    ),
    Mutant(
        name="at-least-once a failed job is run again as if it were aborted",
        rule="docs/sinks.md, At-least-once",
        path="spark_jobs/batch/attempts.py",
        before="""            return Failed(reason, again=self._sifts(reason, direct=True))
""",
        after="""            return Failed(reason, again=self._sifts(reason, direct=True) or self._tolerates(reason))
""",
        caught_by=("tests/spark_jobs/batch/test_attempts.py::test_what_is_tolerated",),
    ),
    Mutant(
        name="a batch with state runs twice in one query",
        rule="R4",
        path="spark_jobs/batch/attempts.py",
        before="""        if self.stateful or not self.tolerance.failed(reason):
""",
        after="""        if not self.tolerance.failed(reason):
""",
        caught_by=("tests/spark_jobs/batch/test_attempts.py::test_what_is_tolerated",),
    ),
    Mutant(
        name="failures count in a row although checkpoints came between",
        rule="docs/checkpoints.md",
        path="spark_jobs/batch/tolerance.py",
        before="""        self._in_a_row = 0
""",
        after="""        self._in_a_row += 0
""",
        caught_by=(
            "tests/spark_jobs/batch/test_tolerance.py::test_tolerated_failures_are_none_for_the_restart_strategy",
        ),
    ),
    Mutant(
        name="one more failure in a row is tolerated",
        rule="docs/checkpoints.md",
        path="spark_jobs/batch/tolerance.py",
        before="""        if self._in_a_row > self.most:
""",
        after="""        if self._in_a_row > self.most + 1:
""",
        caught_by=("tests/spark_jobs/batch/test_tolerance.py::test_one_more_in_a_row_is_for_the_restart_strategy",),
    ),
    Mutant(
        name="an error that no restart cures is tolerated",
        rule="docs/checkpoints.md",
        path="spark_jobs/batch/tolerance.py",
        before="""        if not self.most or not error.retriable or self.is_stopping():
""",
        after="""        if not self.most or self.is_stopping():
""",
        caught_by=("tests/spark_jobs/batch/test_tolerance.py::test_only_failures_of_checkpoints_are_tolerated",),
    ),
    Mutant(
        name="a failure that is none of a checkpoint is tolerated",
        rule="docs/checkpoints.md",
        path="spark_jobs/batch/tolerance.py",
        before="""        return self._aborted is error and self.failed(error)
""",
        after="""        return self.failed(error)
""",
        caught_by=("tests/spark_jobs/batch/test_tolerance.py::test_only_failures_of_checkpoints_are_tolerated",),
    ),
    Mutant(
        name="fewer dead letters than were counted are decided",
        rule="docs/sinks.md, Dead letters",
        path="spark_jobs/batch/dead_letters.py",
        before="        if written < least or (",
        after="        if (",
        caught_by=("tests/connectors/test_dead_letters.py::test_which_counts_are_believed",),
    ),
    Mutant(
        name="dead letters without end stop nothing",
        rule="docs/sinks.md, Dead letters",
        path="spark_jobs/batch/dead_letters.py",
        before="""        if written > self.letters.most:
            return too_many""",
        after="""        if written > 1000 * self.letters.most:
            return too_many""",
        caught_by=("tests/connectors/test_dead_letters.py::test_which_counts_are_believed",),
    ),
    Mutant(
        name="a task writes dead letters without end",
        rule="docs/sinks.md, Dead letters",
        path="spark_jobs/batch/dead_letters.py",
        before="""                    if rows > self.most:
""",
        after="""                    if rows < 0:
""",
        caught_by=("tests/connectors/test_dead_letters.py::test_a_task_stops_at_too_many",),
    ),
    Mutant(
        name="a source ends what it reads without a mark",
        rule="docs/sinks.md, Dead letters",
        path="spark_jobs/query/marks.py",
        before="""    yield pa.record_batch([*nothing, pa.array([aside], pa.int64())], schema=schema)
""",
        after="""    assert nothing is not None
""",
        caught_by=("tests/connectors/test_dead_letters.py::test_a_mark_ends_what_a_task_reads",),
    ),
    Mutant(
        name="a mark counts the records of its last piece alone",
        rule="docs/sinks.md, Dead letters",
        path="spark_jobs/query/marks.py",
        before="""        aside += count
""",
        after="""        aside = count
""",
        caught_by=("tests/connectors/test_dead_letters.py::test_a_mark_ends_what_a_task_reads",),
    ),
    Mutant(
        name="a task that was not read to its end is believed",
        rule="docs/sinks.md, Dead letters",
        path="spark_jobs/batch/dead_letters.py",
        before="""        return self.marks == len(self.tasks)
""",
        after="""        return self.marks >= len(self.tasks)
""",
        caught_by=("tests/connectors/test_dead_letters.py::test_which_counts_are_believed",),
    ),
)
