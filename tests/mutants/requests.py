"""What is asked of a run, who runs, and what a stop deletes."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="a checkpoint begins after a pause was answered",
        rule="docs/how-to/operations.md, Pause and resume",
        path="spark_jobs/run/control.py",
        before="""            self._idle.clear()
            if not self.is_paused() or self.ends_query():
                return
            self._idle.set()
""",
        after="""            self._idle.clear()
            return
""",
        caught_by=(
            "tests/spark_jobs/run/test_control.py::test_a_pause_that_is_answered_while_a_checkpoint_is_about_to_begin_holds_it",
        ),
    ),
    Mutant(
        name="a pause is answered while a checkpoint runs",
        rule="docs/how-to/operations.md, Pause and resume",
        path="spark_jobs/run/pausing.py",
        before="                if self._control.is_idle():\n",
        after="                if self._control.is_paused():\n",
        caught_by=("tests/spark_jobs/run/test_pausing.py::test_a_pause_is_answered_when_the_checkpoint_is_over",),
    ),
    Mutant(
        name="the next start of a paused pipeline takes checkpoints",
        rule="docs/how-to/operations.md, Pause and resume",
        path="spark_jobs/run/pausing.py",
        before="        if found is not None:\n",
        after="        if found is None:\n            return\n        if found.at < 0:\n",
        caught_by=("tests/spark_jobs/run/test_pausing.py::test_the_next_start_is_paused",),
    ),
    Mutant(
        name="a checkpoint that was planned before the request answers it",
        rule="docs/how-to/operations.md",
        path="spark_jobs/run/checkpoint_requests.py",
        before="self.reports[1] if len(self.reports) > 1 else None",
        after="self.reports[0]",
        caught_by=(
            "tests/spark_jobs/run/test_checkpoint_requests.py::test_one_that_was_under_way_counts_if_it_has_taken_all_that_was_there",
        ),
    ),
    Mutant(
        name="a request for a checkpoint is answered before every sink has committed",
        rule="docs/how-to/operations.md",
        path="spark_jobs/run/checkpoint_requests.py",
        before="""        if report is None or head.committed < report.record.checkpoint_id:
""",
        after="""        if report is None:
""",
        caught_by=(
            "tests/spark_jobs/run/test_checkpoint_requests.py::test_it_is_begun_at_once_and_answered_when_it_is_committed_everywhere",
        ),
    ),
    Mutant(
        name="a request for a checkpoint is answered while what there is waits for its commit",
        rule="docs/how-to/operations.md",
        path="spark_jobs/run/checkpoint_requests.py",
        before="return _nothing(head) if head.committed >= self.decided else None",
        after="return _nothing(head)",
        caught_by=(
            "tests/spark_jobs/run/test_checkpoint_requests.py::test_nothing_to_read_is_said_at_once_or_when_the_rest_is_committed",
        ),
    ),
    Mutant(
        name="a request that a run's end leaves is answered by nobody",
        rule="docs/how-to/operations.md",
        path="spark_jobs/run/checkpoint_requests.py",
        before="""            self.reply(demand.request, Answer(ok=False, message=f"{why} before the checkpoint was committed"))
""",
        after="""            del demand
""",
        caught_by=(
            "tests/spark_jobs/run/test_checkpoint_requests.py::test_a_request_outlives_a_restart_and_ends_with_the_run",
        ),
    ),
    Mutant(
        name="a pipeline whose process was killed is taken for running",
        rule="docs/how-to/operations.md",
        path="spark_jobs/observe/run_lock.py",
        before="""            if _is_free(file.fileno()):
                return None
""",
        after="""            _is_free(file.fileno())
""",
        caught_by=("tests/spark_jobs/run/test_requests.py::test_who_runs_it_is_seen_until_the_process_dies",),
    ),
    Mutant(
        name="a sweep forgets a run that lives",
        rule="docs/how-to/operations.md",
        path="spark_jobs/observe/run_lock.py",
        before="""            if _is_free(file.fileno()):
                path.unlink()
""",
        after="""            if not _is_free(file.fileno()):
                path.unlink()
""",
        caught_by=("tests/spark_jobs/observe/test_run_lock.py::test_a_run_that_begins_does_not_hide_one_that_lives",),
    ),
    Mutant(
        name="two commands of one kind work on a pipeline at once",
        rule="docs/how-to/repair.md",
        path="spark_jobs/observe/run_lock.py",
        before="""            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another""",
        after="""            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another""",
        caught_by=(
            "tests/spark_jobs/observe/test_run_lock.py::test_two_commands_of_one_kind_are_not_under_way_at_once",
        ),
    ),
    Mutant(
        name="the folder of the next life is deleted with the old one's",
        rule="docs/how-to/operations.md",
        path="spark_jobs/operations/deletion.py",
        before=" if not path.name.startswith(reset.head.incarnation))",
        after=")",
        caught_by=(
            "tests/spark_jobs/operations/test_deletion.py::test_the_life_that_a_supervisor_starts_meanwhile_stays",
        ),
    ),
)
