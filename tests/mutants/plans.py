"""What Spark plans: offsets of sources, and its own checkpoint."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="Spark is told another initial offset after a crash in its first batch",
        rule="H3",
        path="spark_jobs/query/source.py",
        before="""        return self._offset(self._began.positions)
""",
        after="""        return self._offset(self._ask(self._began).ends)
""",
        caught_by=(
            "tests/spark_jobs/query/test_source.py::test_h3_the_initial_offset_is_what_head_has_stored_and_not_asked_anew",
        ),
    ),
    Mutant(
        name="records of a topic that was made again are left out",
        rule="H23",
        path="spark_jobs/query/source.py",
        before="""            _check_not_shorter(known, horizon.ends)
""",
        after="",
        caught_by=("tests/spark_jobs/query/test_source.py::test_a_topic_that_was_made_again_is_not_passed_over",),
    ),
    Mutant(
        name="a plan forgets the id of a topic that it has found",
        rule="H23",
        path="spark_jobs/query/source.py",
        before="""            self._identities = {**before.began.identities, **self._identities}
""",
        after="",
        caught_by=(
            "tests/spark_jobs/query/test_source.py::test_the_id_of_a_topic_found_on_the_way_goes_from_plan_to_plan",
        ),
    ),
    Mutant(
        name="a plan that is run again reads a topic that was made again",
        rule="H23",
        path="spark_jobs/query/source.py",
        before="""            self._check_same_topics(planned)
""",
        after="",
        caught_by=(
            "tests/spark_jobs/query/test_source.py::test_a_plan_that_is_run_again_is_of_the_topics_that_it_names",
        ),
    ),
    Mutant(
        name="a start does not compare the log with the plan's witnesses",
        rule="H23",
        path="spark_jobs/query/source.py",
        before="""                self._check_witnesses(before, horizon.ends)
""",
        after="",
        caught_by=(
            "tests/spark_jobs/query/test_source.py::test_h23_witnesses_go_from_plan_to_plan_and_are_compared_as_splits_go_on",
        ),
    ),
    Mutant(
        name="a split is read on in a log that went back in time during the run",
        rule="H23",
        path="spark_jobs/query/source.py",
        before="""        self._check_witnesses(before, {each.split for each in moved})
""",
        after="",
        caught_by=(
            "tests/spark_jobs/query/test_source.py::test_h23_witnesses_go_from_plan_to_plan_and_are_compared_as_splits_go_on",
        ),
    ),
    Mutant(
        name="a plan that is run again reads a log that went back in time",
        rule="H23",
        path="spark_jobs/query/source.py",
        before="""                self._check_witnesses(planned, {each.split for each in ranges})
""",
        after="                pass\n",
        caught_by=(
            "tests/spark_jobs/query/test_source.py::test_h23_a_plan_that_is_run_again_is_of_the_log_that_it_names",
        ),
    ),
    Mutant(
        name="a plan forgets the witnesses of splits that got no record",
        rule="H23",
        path="spark_jobs/query/source.py",
        before="""        witnesses = {**before.witnesses, **self._source.witnesses(moved)}
""",
        after="""        witnesses = self._source.witnesses(moved)
""",
        caught_by=(
            "tests/spark_jobs/query/test_source.py::test_h23_witnesses_go_from_plan_to_plan_and_are_compared_as_splits_go_on",
        ),
    ),
    Mutant(
        name="a split found on the way begins where its newest records are",
        rule="H23",
        path="spark_jobs/query/source.py",
        before="""            starts = {**horizon.discovered.positions, **known}
""",
        after="""            starts = {**horizon.ends, **known}
""",
        caught_by=(
            "tests/spark_jobs/query/test_source.py::test_a_new_split_begins_with_the_plan_that_finds_it_though_that_takes_nothing_of_it",
        ),
    ),
    Mutant(
        name="a run until caught up goes on for records that came meanwhile",
        rule="docs/how-to/operations.md",
        path="spark_jobs/query/source.py",
        before="""            self._target = horizon if self._is_bounded else None
""",
        after="""            self._target = None
""",
        caught_by=(
            "tests/spark_jobs/query/test_source.py::test_a_run_until_caught_up_ends_where_the_source_was_at_its_first_plan",
        ),
    ),
    Mutant(
        name="a split that is no longer asked for is forgotten",
        rule="R6",
        path="spark_jobs/query/source.py",
        before="            ends = {**before.ends, **{split",
        after="            ends = {**{split",
        caught_by=("tests/spark_jobs/query/test_source.py::test_a_split_that_is_no_longer_asked_for_stays",),
    ),
    Mutant(
        name="offsets of another source are taken",
        rule="R6",
        path="spark_jobs/query/source.py",
        before="""        if offset.source != self._name:
""",
        after="""        if not offset.source:
""",
        caught_by=("tests/spark_jobs/query/test_source.py::test_offsets_of_another_source_are_refused",),
    ),
    Mutant(
        name="a split that an undecided plan has found is asked for again",
        rule="H3",
        path="spark_jobs/run/starting_points.py",
        before="""            driver.store_positions(name, plan.began)
""",
        after="""            driver.store_positions(name, StartingPoint())
""",
        caught_by=(
            "tests/spark_jobs/run/test_restart.py::test_a_split_that_an_undecided_plan_has_found_begins_where_the_plan_says",
        ),
    ),
    Mutant(
        name="a source that is renamed reads on where another one ended",
        rule="R2",
        path="spark_jobs/run/starting_points.py",
        before="    if not stored.keys() <= set(names) or (",
        after="    if (",
        caught_by=("tests/spark_jobs/run/test_restart.py::test_a_source_under_another_name_is_refused",),
    ),
    Mutant(
        name="a source that is new to a pipeline is taken",
        rule="R2",
        path="spark_jobs/run/starting_points.py",
        before=" or (head.query_id is not None and len(stored) < len(names)):",
        after=":",
        caught_by=("tests/spark_jobs/run/test_restart.py::test_a_source_under_another_name_is_refused",),
    ),
    Mutant(
        name="a plan that another driver has written over Spark's is decided",
        rule="H25",
        path="spark_jobs/run/checkpoints.py",
        before="""            check_ends(offsets_log, held)
""",
        after="""            held = ()
""",
        caught_by=(
            "tests/spark_jobs/run/test_checkpoints.py::test_h25_a_batch_whose_plan_was_written_over_is_not_decided",
        ),
    ),
    Mutant(
        name="a list of files that another driver has written over Spark's is decided",
        rule="H25",
        path="spark_jobs/query/source_lists.py",
        before="            if {path_text(each.path) for each in entries} != set(batch.paths):",
        after="            if len(entries) < len(batch.paths):",
        caught_by=(
            "tests/spark_jobs/query/test_source_lists.py"
            "::test_h25_a_batch_that_reads_other_files_than_its_list_is_not_decided",
        ),
    ),
    Mutant(
        name="a compact list forgets what was decided",
        rule="H25",
        path="spark_jobs/query/source_lists.py",
        before="            if known.setdefault(number, digest) != digest:",
        after="            if known.update({number: digest}):",
        caught_by=(
            "tests/spark_jobs/query/test_source_lists.py"
            "::test_h25_a_list_that_was_written_over_is_found_in_the_next_compact_one",
        ),
    ),
    Mutant(
        name="a file that a later list names once more is read twice",
        rule="H25",
        path="spark_jobs/query/source_lists.py",
        before="            self._first_batch.setdefault(folder, numbers)",
        after="            self._first_batch.get(folder, numbers)",
        caught_by=(
            "tests/spark_jobs/query/test_source_lists.py::test_h25_a_list_that_was_written_over_while_a_run_begins",
        ),
    ),
    Mutant(
        name="a driver whose folder a reset deleted blames the folder",
        rule="R1",
        path="spark_jobs/run/checkpoints.py",
        before="            self.driver.check_owned()  # a reset deletes",
        after="            self.driver.check()  # a reset deletes",
        caught_by=(
            "tests/spark_jobs/run/test_deleted_folder.py::test_a_driver_whose_incarnation_a_reset_has_ended_is_fenced",
        ),
    ),
    Mutant(
        name="a checkpoint is decided on a plan that is not on disk",
        rule="docs/explanation/protocol.md",
        path="spark_jobs/run/checkpoints.py",
        before="""        self.log.sync_offsets(incarnation, number)
""",
        after="",
        caught_by=("tests/project/test_power_cut.py::test_a_completed_checkpoint",),
    ),
    Mutant(
        name="head has the id of a query that is not on disk",
        rule="docs/explanation/protocol.md",
        path="spark_jobs/run/checkpoints.py",
        before="""            self.log.sync_query(incarnation)
""",
        after="",
        caught_by=("tests/project/test_power_cut.py::test_a_completed_checkpoint",),
    ),
    Mutant(
        name="a plan whose ends are not Spark's is taken",
        rule="H25",
        path="spark_jobs/query/spark_log.py",
        before="""    if sorted(held) != sorted(ends_of(offsets_log)):
""",
        after="""    if len(held) != len(ends_of(offsets_log)):
""",
        caught_by=(
            "tests/spark_jobs/run/test_checkpoints.py::test_h25_a_batch_whose_plan_was_written_over_is_not_decided",
        ),
    ),
    Mutant(
        name="a commit of Spark's that is cut off counts",
        rule="docs/explanation/protocol.md",
        path="spark_jobs/query/spark_log.py",
        before='newest_committed=newest_whole(folder / "commits")',
        after='newest_committed=max(numbers(folder / "commits"), default=-1)',
        caught_by=("tests/spark_jobs/query/test_spark_log.py::test_a_commit_that_cannot_be_read_is_none",),
    ),
    Mutant(
        name="a commit in a store that is cut off counts",
        rule="docs/explanation/protocol.md",
        path="spark_jobs/query/stored_spark_log.py",
        before='return not is_cut_commit(self.files.read(f"commits/{number}"))',
        after='return self.files.read(f"commits/{number}") is not None',
        caught_by=("tests/spark_jobs/query/test_stored_spark_log.py::test_commits_that_are_cut_off_do_not_count",),
    ),
    Mutant(
        name="a plan of other sources is taken",
        rule="R2",
        path="spark_jobs/query/spark_log.py",
        before=" or not found.keys() <= set(sources):",
        after=":",
        caught_by=("tests/spark_jobs/query/test_spark_log.py::test_sources_are_told_by_name_not_by_order",),
    ),
    Mutant(
        name="a rescale that Spark has committed is taken back",
        rule="docs/how-to/rescaling.md",
        path="spark_jobs/query/spark_log.py",
        before="""            or state.newest_committed >= checkpoint_id
""",
        after="""            or state.newest_committed > checkpoint_id
""",
        caught_by=(
            "tests/spark_jobs/cli/test_rescale.py::test_only_a_rescale_that_spark_has_not_committed_is_taken_back",
        ),
    ),
    Mutant(
        name="a driver that is superseded deletes what a newer one has written",
        rule="R1",
        path="spark_jobs/query/spark_log_repair.py",
        before="""        driver.check_owned()
""",
        after="",
        caught_by=(
            "tests/spark_jobs/query/test_spark_log_repair.py::test_a_driver_that_is_superseded_deletes_nothing",
        ),
    ),
    Mutant(
        name="two drivers delete what a power cut has left at the same time",
        rule="R1",
        path="spark_jobs/query/spark_log_repair.py",
        before="""    with _alone(folder):
""",
        after="""    if True:
""",
        caught_by=("tests/spark_jobs/query/test_spark_log_repair.py::test_who_comes_later_waits_and_looks_again",),
    ),
    Mutant(
        name="a plan is run while an older driver may still delete it",
        rule="H25",
        path="spark_jobs/query/spark_log_repair.py",
        before="""    if not folder.exists():
""",
        after="""    if not _cut(folder, head, overran):
""",
        caught_by=(
            "tests/spark_jobs/query/test_spark_log_repair.py"
            "::test_a_plan_is_not_run_before_an_older_driver_that_replans_it_is_through",
        ),
    ),
    Mutant(
        name="overruns are counted beyond what a float holds",
        rule="docs/reference/checkpoints.md",
        path="spark_jobs/query/pacing/admission.py",
        before="""min(self._overruns + 1, _MOST_OVERRUNS)""",
        after="""self._overruns + 1""",
        caught_by=(
            "tests/spark_jobs/query/test_pacing.py"
            "::test_a_sink_that_stands_still_for_days_does_not_end_the_run_by_another_error",
        ),
    ),
    Mutant(
        name="a plan that overran is deleted though it is decided",
        rule="R6",
        path="spark_jobs/query/spark_log_repair.py",
        before="""    elif overran == head.completed + 1 and plan.exists():
""",
        after="""    elif overran is not None and (plan := folder / "offsets" / str(overran)).exists():
""",
        caught_by=(
            "tests/spark_jobs/query/test_spark_log_repair.py"
            "::test_a_plan_whose_tasks_took_too_long_is_deleted_if_it_is_the_one_that_comes_next",
        ),
    ),
    Mutant(
        name="after an overrun the limit is the same",
        rule="docs/reference/checkpoints.md",
        path="spark_jobs/query/pacing/admission.py",
        before="""_LEAST_LIMIT_S) * 2.0**self._overruns
""",
        after="""_LEAST_LIMIT_S)
""",
        caught_by=(
            "tests/spark_jobs/query/test_pacing.py"
            "::test_a_sink_that_gets_slower_while_a_checkpoint_is_written_meets_smaller_plans",
        ),
    ),
    Mutant(
        name="a decided plan that is cut off is deleted",
        rule="R2",
        path="spark_jobs/query/spark_log_repair.py",
        before="""folder / "offsets" / str(head.completed + 1)):
        found""",
        after="""folder / "offsets" / str(head.completed)):
        found""",
        caught_by=(
            "tests/spark_jobs/query/test_spark_log_repair.py::test_what_a_plan_that_is_cut_off_says_of_state_goes_with_it",
        ),
    ),
    Mutant(
        name="state that is not known any more is begun anew",
        rule="R4",
        path="spark_jobs/query/spark_log_repair.py",
        before="""    if newest_whole(commits) < last - 1:
""",
        after="""    if newest_whole(commits) < -1:
""",
        caught_by=(
            "tests/spark_jobs/query/test_spark_log_repair.py::test_state_that_is_not_known_any_more_is_refused",
        ),
    ),
    Mutant(
        name="a plan upon state that is not known stays",
        rule="R4",
        path="spark_jobs/query/spark_log_repair.py",
        before='    return [(plan, f"Spark has',
        after='    return cut or [(plan, f"Spark has',
        caught_by=("tests/spark_jobs/query/test_spark_log_repair.py::test_it_may_be_cut_short_itself",),
    ),
    Mutant(
        name="the oldest commit that is cut off is deleted first",
        rule="R4",
        path="spark_jobs/query/spark_log_repair.py",
        before="""    for number in reversed(numbers(commits)):
""",
        after="""    for number in numbers(commits):
""",
        caught_by=("tests/spark_jobs/query/test_spark_log_repair.py::test_it_may_be_cut_short_itself",),
    ),
    Mutant(
        name="a plan of zero bytes is taken for whole",
        rule="docs/explanation/protocol.md",
        path="spark_jobs/query/truncated_files.py",
        before="len(lines) > 1 and all",
        after="all",
        caught_by=(
            "tests/spark_jobs/query/test_spark_log_repair.py::test_a_plan_that_is_cut_off_and_not_decided_is_deleted",
        ),
    ),
)
