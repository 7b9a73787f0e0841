"""What follows a failed try of a batch, and the records that are put aside."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="a worker keeps state on a disk of its own",
        rule="docs/how-to/deploying.md, On a cluster",
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
        name="fewer dead letters than were counted are decided",
        rule="docs/reference/sinks.md, Dead letters",
        path="spark_jobs/batch/dead_letters.py",
        before="        if written < least or (",
        after="        if (",
        caught_by=("tests/connectors/test_dead_letters.py::test_which_counts_are_believed",),
    ),
    Mutant(
        name="dead letters without end stop nothing",
        rule="docs/reference/sinks.md, Dead letters",
        path="spark_jobs/batch/dead_letters.py",
        before="""        if written > self.letters.most:
            return too_many""",
        after="""        if written > 1000 * self.letters.most:
            return too_many""",
        caught_by=("tests/connectors/test_dead_letters.py::test_which_counts_are_believed",),
    ),
    Mutant(
        name="a task writes dead letters without end",
        rule="docs/reference/sinks.md, Dead letters",
        path="spark_jobs/batch/dead_letters.py",
        before="""                    if rows > self.most:
""",
        after="""                    if rows < 0:
""",
        caught_by=("tests/connectors/test_dead_letters.py::test_a_task_stops_at_too_many",),
    ),
    Mutant(
        name="a source ends what it reads without a mark",
        rule="docs/reference/sinks.md, Dead letters",
        path="spark_jobs/query/marks.py",
        before="""    yield pa.record_batch([*nothing, *last], schema=schema)
""",
        after="""    assert nothing is not None
""",
        caught_by=("tests/connectors/test_dead_letters.py::test_a_mark_ends_what_a_task_reads",),
    ),
    Mutant(
        name="a mark counts the records of its last piece alone",
        rule="docs/reference/sinks.md, Dead letters",
        path="spark_jobs/query/marks.py",
        before="""        aside += count
""",
        after="""        aside = count
""",
        caught_by=("tests/connectors/test_dead_letters.py::test_a_mark_ends_what_a_task_reads",),
    ),
    Mutant(
        name="a task that was not read to its end is believed",
        rule="docs/reference/sinks.md, Dead letters",
        path="spark_jobs/batch/dead_letters.py",
        before="""        return self.marks == len(self.tasks)
""",
        after="""        return self.marks >= len(self.tasks)
""",
        caught_by=("tests/connectors/test_dead_letters.py::test_which_counts_are_believed",),
    ),
)
