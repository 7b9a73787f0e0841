"""A batch of Spark's: its jobs, its tasks and what they acknowledge."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="a try that only looks for equal rows is decided",
        rule="H15",
        path="spark_jobs/batch/batch.py",
        before="""                    self._run(branch_jobs.writing(task, together=True))
                    return tries.looked(tries.locked)
                if self.chains:
""",
        after="""                    acknowledged = self._run(branch_jobs.writing(task, together=True))
                elif self.chains:
""",
        caught_by=("tests/spark_jobs/batch/test_batch.py::test_h15_a_try_that_looks_for_equal_rows_is_never_decided",),
    ),
    Mutant(
        name="dead letters are prepared and not decided",
        rule="docs/reference/sinks.md, Dead letters",
        path="spark_jobs/batch/batch.py",
        before="return Acknowledged(by_sink(names, [*prepared, *letters]), time.time(), schemas=met)",
        after="return Acknowledged(by_sink(names, prepared), time.time(), schemas=met)",
        caught_by=(
            "tests/spark_jobs/batch/test_batch.py::test_dead_letters_are_decided_with_the_rows_of_their_checkpoint",
        ),
    ),
    Mutant(
        name="the counts of rules are those of a job that has lost rows",
        rule="docs/how-to/expectations.md, Counts",
        path="spark_jobs/batch/rule_checks.py",
        before="if found is not None and (step.name not in self._found or not self._found[step.name].rows):",
        after="if found is not None:",
        caught_by=(
            "tests/spark_jobs/batch/test_rule_checks.py::test_a_later_job_that_computes_lost_rows_again_changes_no_count",
        ),
    ),
    Mutant(
        name="a checkpoint is decided whose rows fail a rule that stops it",
        rule="docs/how-to/expectations.md",
        path="spark_jobs/batch/batch.py",
        before="surplus = self._left_out(acknowledged) or checks.surplus(self.checkpoint_id)",
        after="surplus = self._left_out(acknowledged)",
        caught_by=(
            "tests/spark_jobs/batch/test_batch.py::test_more_failed_rows_than_a_rule_allows_abort_the_checkpoint",
        ),
    ),
    Mutant(
        name="dead letters of a rule are compared with the failed rows by their number alone",
        rule="docs/how-to/expectations.md, Dead letters by a rule",
        path="spark_jobs/query/expectations.py",
        before="return Rows(int(row.getLong(at)), 0 if row.isNullAt(at + 1) else int(row.getDecimal(at + 1)))",
        after="return Rows(int(row.getLong(at)))",
        caught_by=("tests/spark_jobs/query/test_expectations.py::test_a_second_computation_is_compared_by_its_rows",),
    ),
    Mutant(
        name="a checkpoint is decided whose dead letters are other rows than those that failed",
        rule="docs/how-to/expectations.md, Dead letters by a rule",
        path="spark_jobs/batch/batch.py",
        before="            return other_rows(self.checkpoint_id, step)",
        after="            pass",
        caught_by=("tests/spark_jobs/batch/test_batch.py::test_dead_letters_of_other_rows_abort_the_checkpoint",),
    ),
    Mutant(
        name="the rows that a rule makes dead letters have no limit before they are computed",
        rule="docs/how-to/expectations.md, Dead letters by a rule",
        path="spark_jobs/batch/batch.py",
        before="if (direct or rejected.rows) and (surplus",
        after="if direct and (surplus",
        caught_by=(
            "tests/spark_jobs/batch/test_batch.py::test_rows_that_a_rule_rejects_are_dead_letters_within_their_limit",
        ),
    ),
    Mutant(
        name="a checkpoint that leaves out too many records is decided",
        rule="docs/reference/sources.md, Records that are left out",
        path="spark_jobs/batch/batch.py",
        before="                    return Failed(surplus)\n",
        after="                    surplus.add_note('')\n",
        caught_by=(
            "tests/spark_jobs/batch/test_batch.py::test_a_batch_that_leaves_out_too_many_records_is_not_decided",
        ),
    ),
    Mutant(
        name="a row in the partition of another root is left out",
        rule="docs/explanation/protocol.md, Several sinks, one decision",
        path="spark_jobs/query/roots.py",
        before="        frames[root] = _unwrapped(own.where(_must_be_of(root)), root)\n",
        after="        frames[root] = _unwrapped(own.where(_is_of(root)), root)\n",
        caught_by=("tests/spark_jobs/query/test_roots.py::test_a_row_in_the_partition_of_another_root_is_an_error",),
    ),
    Mutant(
        name="two groups of sinks read one source",
        rule="docs/reference/spec.md, Several sinks",
        path="connectors/spec/flow.py",
        before="        joined = [group for group in groups if group[0] & feeding]\n",
        after="        joined = [group for group in groups if group[0] == feeding]\n",
        caught_by=("tests/connectors/spec/test_flow.py::test_names_that_read_a_common_source_have_one_root",),
    ),
    Mutant(
        name="what a chained task leaves out is not counted",
        rule="docs/reference/sources.md, Records that are left out",
        path="spark_jobs/batch/chaining.py",
        before="            if schemas or any(counts):\n",
        after="            if schemas or not any(counts):\n",
        caught_by=(
            "tests/spark_jobs/batch/test_skipping.py::test_a_task_that_reads_and_writes_acknowledges_what_it_has_left_out",
        ),
    ),
    Mutant(
        name="a small checkpoint may leave out no record of a share",
        rule="docs/reference/sources.md, Records that are left out",
        path="connectors/spec/settings.py",
        before="        return math.ceil(",
        after="        return math.floor(",
        caught_by=("tests/spark_jobs/batch/test_skipping.py::test_the_limit_is_a_number_or_a_share",),
    ),
    Mutant(
        name="what a stage that ran twice leaves out counts twice",
        rule="docs/reference/sources.md, Records that are left out",
        path="spark_jobs/batch/skipping.py",
        before="    return read.aside * tasks // max(read.marks, tasks)\n",
        after="    return read.aside * tasks // tasks\n",
        caught_by=("tests/spark_jobs/batch/test_skipping.py::test_the_count_is_that_of_the_job",),
    ),
    Mutant(
        name="a checkpoint that is told twice counts its skipped records twice",
        rule="docs/how-to/watching.md, History and status",
        path="spark_jobs/observe/history/writer.py",
        before='        if run("INSERT OR IGNORE INTO skipped VALUES',
        after='        if run("INSERT OR REPLACE INTO skipped VALUES',
        caught_by=(
            "tests/spark_jobs/observe/test_history_store.py::test_what_sources_leave_out_is_counted_once_and_for_ever",
        ),
    ),
    Mutant(
        name="a checkpoint that runs past its timeout is not cancelled",
        rule="R8",
        path="spark_jobs/batch/batch.py",
        before="""        return ended_after(limit_s, lambda: self.cancel(f"{_OVERRAN} {limit} ({limit_s:.3g} s)"))
""",
        after="""        return ended_after(limit_s, lambda: None)
""",
        caught_by=(
            "tests/spark_jobs/batch/test_batch.py::test_a_timeout_cancels_the_job_and_is_the_reason_of_the_abort",
        ),
    ),
    Mutant(
        name="a checkpoint that overruns keeps its plan",
        rule="docs/reference/checkpoints.md",
        path="spark_jobs/batch/batch.py",
        before="""        if self._cancelled.startswith(_OVERRAN) and self.limit is not None:
""",
        after="""        if self._cancelled.startswith(_OVERRAN) and self.limit is None:
""",
        caught_by=("tests/spark_jobs/batch/test_batch.py::test_a_checkpoint_that_overruns_is_replanned",),
    ),
    Mutant(
        name="a pipeline that is stopped replans its checkpoint",
        rule="docs/reference/checkpoints.md",
        path="spark_jobs/batch/batch.py",
        before="""        if self._cancelled.startswith(_OVERRAN) and self.limit is not None:
""",
        after="""        if self.limit is not None:
""",
        caught_by=("tests/spark_jobs/batch/test_batch.py::test_a_batch_that_fails_otherwise_keeps_its_plan",),
    ),
    Mutant(
        name="a replayed batch does not bring its state along",
        rule="R4",
        path="spark_jobs/batch/batch.py",
        before="""        if not self.stateful:
            return None
""",
        after="""        if not self.stateful or digest_methods:
            return None
""",
        caught_by=(
            "tests/spark_jobs/batch/test_batch.py::test_r4_a_replay_that_fails_is_not_taken_for_one_without_rows",
        ),
    ),
    Mutant(
        name="a batch is repeated for its state without its records",
        rule="H39",
        path="spark_jobs/run/checkpoints.py",
        before="        if replayed and batch.stateful:",
        after="        if replayed and not batch.stateful:",
        caught_by=(
            "tests/spark_jobs/run/test_checkpoints.py"
            "::test_h39_a_batch_that_runs_again_for_its_state_has_the_records_that_it_had",
        ),
    ),
    Mutant(
        name="what a decision left out is missing in its replay",
        rule="H39",
        path="spark_jobs/run/checkpoints.py",
        before="if gone := set(lost) - set(record.left_out.get(name, ())):",
        after="if gone := set(lost):",
        caught_by=(
            "tests/spark_jobs/run/test_checkpoints.py"
            "::test_h39_a_batch_that_runs_again_for_its_state_has_the_records_that_it_had",
        ),
    ),
    Mutant(
        name="a replay adds up digests of another branch",
        rule="R4",
        path="spark_jobs/batch/batch.py",
        before='own = [row for row in counts if (row["branch"], row["hash"]) == (branch_number, hash_number)]',
        after='own = [row for row in counts if row["hash"] == hash_number]',
        caught_by=(
            "tests/spark_jobs/batch/test_batch.py::test_r4_a_replay_with_state_runs_its_job_and_adds_up_each_branch",
        ),
    ),
    Mutant(
        name="dead letters that do not fit the counts are decided",
        rule="docs/reference/sinks.md, Dead letters",
        path="spark_jobs/batch/batch.py",
        before="""        return found.mistake(self.checkpoint_id, rows_written) or acknowledged
""",
        after="""        return acknowledged
""",
        caught_by=(
            "tests/spark_jobs/batch/test_batch.py::test_dead_letters_are_decided_with_the_rows_of_their_checkpoint",
        ),
    ),
    Mutant(
        name="tasks of dead letters have the numbers of the rows' tasks",
        rule="R6",
        path="spark_jobs/batch/batch.py",
        before="max((each.transaction.task for each in written), default=-1) + 1",
        after="0 * len(written)",
        caught_by=(
            "tests/spark_jobs/batch/test_batch.py::test_dead_letters_are_decided_with_the_rows_of_their_checkpoint",
        ),
    ),
    Mutant(
        name="a cancelled checkpoint names the error of a task that was killed",
        rule="R8",
        path="spark_jobs/batch/batch.py",
        before="""        if not self._cancelled:
            return translate""",
        after="""        if error is not None:
            return translate""",
        caught_by=(
            "tests/spark_jobs/batch/test_batch.py::test_a_timeout_cancels_the_job_and_is_the_reason_of_the_abort",
        ),
    ),
    Mutant(
        name="a timeout ends one stage of a job and not the job",
        rule="R8",
        path="spark_jobs/batch/time_limit.py",
        before="""        while not left.wait(wait_s):
            cancel()
""",
        after="""        if not left.wait(wait_s):
            cancel()
""",
        caught_by=("tests/spark_jobs/run/test_control.py::test_a_timeout_cancels_until_the_job_has_ended",),
    ),
    Mutant(
        name="of several writers only the first is aborted",
        rule="R5",
        path="spark_jobs/batch/writing.py",
        before="        for writer in writers:\n            with suppress(Exception, SystemExit):",
        after="        for writer in writers[:1]:\n            with suppress(Exception, SystemExit):",
        caught_by=("tests/spark_jobs/batch/test_writing.py::test_r5_an_error_of_the_rows_leaves_nothing_in_any_sink",),
    ),
    Mutant(
        name="an error of the rows leaves what the writers have begun",
        rule="R5",
        path="spark_jobs/batch/writing.py",
        before="                writer.abort()\n        raise\n",
        after="                del writer\n        raise\n",
        caught_by=("tests/spark_jobs/batch/test_writing.py::test_r5_an_error_of_the_rows_leaves_nothing_in_any_sink",),
    ),
    Mutant(
        name="a writer whose abort fails keeps the others from aborting",
        rule="R5",
        path="spark_jobs/batch/writing.py",
        before="            with suppress(Exception, SystemExit):  # the first",
        after="            with suppress(OSError):  # the first",
        caught_by=(
            "tests/spark_jobs/batch/test_writing.py::test_r5_a_writer_that_ends_the_process_leaves_nothing_in_any_sink",
        ),
    ),
    Mutant(
        name="a writer acknowledges another number of rows than it took",
        rule="R5",
        path="spark_jobs/batch/writing.py",
        before="if type(each.rows) is not int or each.rows != taken:",
        after="if type(each.rows) is not int:",
        caught_by=(
            "tests/spark_jobs/batch/test_writing.py::test_r5_a_wrong_acknowledgement_of_one_sink_is_an_error_of_the_task",
        ),
    ),
    Mutant(
        name="a writer acknowledges the transaction of another attempt",
        rule="R5",
        path="spark_jobs/batch/writing.py",
        before="if each.transaction != transaction:",
        after="if each.transaction.task != transaction.task:",
        caught_by=(
            "tests/spark_jobs/batch/test_writing.py::test_r5_a_wrong_acknowledgement_of_one_sink_is_an_error_of_the_task",
        ),
    ),
    Mutant(
        name="each sink gets the digest of the first one's columns",
        rule="R4",
        path="spark_jobs/batch/writing.py",
        before="digest=self.values[share.digest])",
        after="digest=self.values[0])",
        caught_by=("tests/spark_jobs/batch/test_writing.py::test_r4_each_sink_has_the_digest_of_its_own_columns",),
    ),
    Mutant(
        name="a replay counts the rows of its last batch alone",
        rule="R4",
        path="spark_jobs/batch/writing.py",
        before="""        self.rows += batch.num_rows
        return batch.select""",
        after="""        self.rows = batch.num_rows
        return batch.select""",
        caught_by=("tests/spark_jobs/batch/test_writing.py::test_the_task_of_a_replay_counts_and_writes_nothing",),
    ),
    Mutant(
        name="a share has its columns in the order of the rows",
        rule="R5",
        path="spark_jobs/batch/writing.py",
        before="batch.select(self.places).rename_columns",
        after="batch.select(sorted(self.places)).rename_columns",
        caught_by=("tests/spark_jobs/batch/test_writing.py::test_a_share_has_the_columns_in_its_sinks_order",),
    ),
    Mutant(
        name="attempts of a task that a stage repeats share one name",
        rule="H1",
        path="spark_jobs/batch/writing.py",
        before="TransactionId(scope, sink_key(share.sink.name), task, fresh_attempt(context.taskAttemptId()))",
        after="TransactionId(scope, sink_key(share.sink.name), task, context.partitionId())",
        caught_by=("tests/spark_jobs/batch/test_writing.py::test_r5_a_task_prepares_its_rows_in_every_sink",),
    ),
    Mutant(
        name="rows that tasks put aside are dropped",
        rule="docs/reference/sinks.md, Dead letters",
        path="spark_jobs/batch/acks.py",
        before="""    return pa.concat_tables([RECORD.empty_table(), *letters])
""",
        after="""    return pa.concat_tables([RECORD.empty_table(), *letters[:0]])
""",
        caught_by=(
            "tests/spark_jobs/batch/test_batch.py::test_dead_letters_are_decided_with_the_rows_of_their_checkpoint",
        ),
    ),
)
