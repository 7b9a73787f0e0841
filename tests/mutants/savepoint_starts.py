"""A start from a savepoint: what it takes over, and what it asks for."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_JOB_TESTS: Final = "tests/spark_jobs/operations/test_job_restore.py"

MUTANTS: Final = (
    Mutant(
        name="a restored job writes rows twice without a word",
        rule="R2",
        path="spark_jobs/operations/repeated_records.py",
        before="""    if status is None or found.other_life or status.head.completed <= at.completed:
""",
        after="""    if status is not None:
""",
        caught_by=(f"{_JOB_TESTS}::test_rows_after_the_savepoint_have_to_be_accepted",),
    ),
    Mutant(
        name="rows that a head which was set back does not know are written twice without a word",
        rule="R2",
        path="spark_jobs/operations/repeated_records.py",
        before="""_beyond(head, sinks)  #""",
        after="""{}  #""",
        caught_by=(
            f"{_JOB_TESTS}::test_rows_that_a_head_does_not_know_any_more_have_to_be_accepted",
            "tests/spark_jobs/savepoints/test_changes.py::test_sinks_that_are_beyond_a_head_that_was_set_back_are_named",
        ),
    ),
    Mutant(
        name="a start continues after checkpoints that head lost when it was set back",
        rule="R2",
        path="spark_jobs/operations/set_back_since.py",
        before="""        if head.incarnation == at.incarnation and head.completed < at.completed:
""",
        after="""        if head.incarnation != at.incarnation and head.completed < at.completed:
""",
        caught_by=(
            f"{_JOB_TESTS}::test_a_head_that_was_set_back_to_before_the_savepoint_is_refused",
            "tests/spark_jobs/operations/test_from_savepoint.py"
            "::test_a_head_that_was_set_back_to_before_the_savepoint_is_refused",
        ),
    ),
    Mutant(
        name="a start continues after checkpoints that a sink lost when it was set back",
        rule="R2",
        path="spark_jobs/operations/set_back_since.py",
        before="""if each.claim_incarnation == at.incarnation}
""",
        after="""if each.claim_incarnation != at.incarnation}
""",
        caught_by=(
            "tests/spark_jobs/operations/test_from_savepoint.py"
            "::test_a_sink_that_was_set_back_to_before_the_savepoint_is_refused",
        ),
    ),
    Mutant(
        name="a restore begins an incarnation whose folder cannot take its place",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/job_restore.py",
        before="""    if folder.is_symlink():
""",
        after="""    if False:
""",
        caught_by=(f"{_JOB_TESTS}::test_a_folder_behind_a_link_is_refused_before_anything_changes",),
    ),
    Mutant(
        name="a savepoint has a plan that another driver has written over the decided one",
        rule="H25",
        path="spark_jobs/savepoints/take.py",
        before="""        _check_plan(point, pins)
""",
        after="",
        caught_by=("tests/spark_jobs/savepoints/test_take.py::test_a_plan_that_is_not_the_decided_one_is_not_kept",),
    ),
    Mutant(
        name="a restored query has the id of the one before",
        rule="R2",
        path="spark_jobs/operations/job_restore.py",
        before="""str(uuid.uuid4())""",
        after="""at.query_id""",
        caught_by=(f"{_JOB_TESTS}::test_rows_after_the_savepoint_have_to_be_accepted",),
    ),
    Mutant(
        name="a savepoint of a job lacks the files of Spark's sources",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/take.py",
        before="""        more = () if spec.sources else jobs.source_files(point.spark)
""",
        after="""        more = ()
""",
        caught_by=(
            "tests/spark_jobs/savepoints/test_job.py::test_it_holds_state_and_the_files_of_sparks_sources_and_no_path_of_this_machine",
        ),
    ),
    Mutant(
        name="state that begins empty has the version of the trial",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/spark_rewriting.py",
        before="""            rest = f"{snapshot['store']}{version}_{snapshot['id']}" if snapshot else rest
""",
        after="""            rest = f"{snapshot['store']}1_{snapshot['id']}" if snapshot else rest
""",
        caught_by=(
            "tests/spark_jobs/savepoints/test_changes.py::test_state_that_begins_empty_lies_beside_state_that_is_kept",
        ),
    ),
    Mutant(
        name="the empty state of all operators of the trial replaces the state that is kept",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/spark_rewriting.py",
        before="""            if match is None or int(match["operator"]) not in self.operators:
""",
        after="""            if match is None:
""",
        caught_by=(
            "tests/spark_jobs/savepoints/test_changes.py::test_state_that_begins_empty_lies_beside_state_that_is_kept",
        ),
    ),
    Mutant(
        name="what Spark commits has no state of an operator that begins empty",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/spark_rewriting.py",
        before="commit(source.read_text(), now, empty.ids() if empty is not None else {})",
        after="commit(source.read_text(), now, {})",
        caught_by=(
            "tests/spark_jobs/savepoints/test_changes.py::test_state_that_begins_empty_lies_beside_state_that_is_kept",
        ),
    ),
    Mutant(
        name="the state of all steps is dropped where one is added",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/changes.py",
        before="""        None if fates.added and not fates.operators else fates.operators,
""",
        after="""        None if fates.added else fates.operators,
""",
        caught_by=(
            "tests/spark_jobs/savepoints/test_changes.py::test_a_step_that_is_added_begins_empty_and_the_others_keep_their_state",
        ),
    ),
    Mutant(
        name="state of integers that become narrower is kept",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/changes.py",
        before="""    return all(_WIDTHS[old] <= _WIDTHS[new] for old, new in pairs)
""",
        after="""    return all(_WIDTHS[old] and _WIDTHS[new] for old, new in pairs)
""",
        caught_by=("tests/spark_jobs/savepoints/test_changes.py::test_integers_that_become_wider_keep_their_state",),
    ),
    Mutant(
        name="hashes and bytes of integers are read as those of wider ones",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/changes.py",
        before="""    if _rereads(then, now):
        return False
""",
        after="",
        caught_by=("tests/spark_jobs/savepoints/test_changes.py::test_integers_that_become_wider_keep_their_state",),
    ),
    Mutant(
        name="an operator that becomes wider gets the state of another one in its step",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/changes.py",
        before="""    unclear = _unclear(then, now)
""",
        after="""    unclear = frozenset[Operator]()
""",
        caught_by=(
            "tests/spark_jobs/savepoints/test_changes.py::test_no_operator_gets_the_state_of_another_one_of_its_kind_in_the_step",
        ),
    ),
    Mutant(
        name="state of narrower integers is taken as it is",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/changes.py",
        before="""        if self.operators is None or self.empty or self.widened:
""",
        after="""        if self.operators is None or self.empty:
""",
        caught_by=(
            "tests/spark_jobs/savepoints/test_changes.py::test_state_that_only_becomes_wider_where_it_is_cannot_be_gone_on_with_as_it_is",
        ),
    ),
    Mutant(
        name="numbers below zero become large ones where their integers become wider",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/widening.py",
        before='functions.lit(b"\\xff" * more)',
        after="functions.lit(bytes(more))",
        caught_by=(
            "tests/spark_jobs/operations/test_new_state.py::test_state_is_rewritten_for_wider_integers_beside_state_that_begins_empty",
        ),
    ),
    Mutant(
        name="state stays in the partition of the narrower key",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/widening.py",
        before="""        return rows.repartition(self._partitions, _KEY).select(*columns)._jdf
""",
        after="""        return rows.repartition(self._partitions, "partition_key").select(*columns)._jdf
""",
        caught_by=(
            "tests/spark_jobs/operations/test_new_state.py::test_state_is_rewritten_for_wider_integers_beside_state_that_begins_empty",
        ),
    ),
    Mutant(
        name="the settings of the session stay as a trial needs them",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/trial.py",
        before="""        spark.conf.set(CHANGELOG, before)
""",
        after="""        spark.conf.set(CHANGELOG, "false")
""",
        caught_by=(
            "tests/spark_jobs/operations/test_new_state.py::test_state_is_rewritten_for_wider_integers_beside_state_that_begins_empty",
        ),
    ),
    Mutant(
        name="state goes to the operator of the same number, whatever its name",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/spark_rewriting.py",
        before="""            number = now.get(int(match["operator"]))
""",
        after="""            number = int(match["operator"])
""",
        caught_by=("tests/spark_jobs/savepoints/test_changes.py::test_state_lies_under_its_new_number",),
    ),
    Mutant(
        name="state of a step that is gone is kept in what Spark commits",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/spark_rewriting.py",
        before=" for number, each in ids.items() if int(number) in now}",
        after=" for number, each in ids.items()}",
        caught_by=("tests/spark_jobs/savepoints/test_changes.py::test_state_lies_under_its_new_number",),
    ),
    Mutant(
        name="offsets go to the source in the same place, whatever its name",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/spark_rewriting.py",
        before='*(known.get(name, "-") for name in sources)]',
        after="*lines]",
        caught_by=("tests/spark_jobs/savepoints/test_changes.py::test_sources_stand_where_the_new_query_has_them",),
    ),
    Mutant(
        name="state of a life from a savepoint is not on disk when head has it",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/spark_rewriting.py",
        before="""    shutil.copyfile(source, target)
    sync(target)
""",
        after="""    shutil.copyfile(source, target)
""",
        caught_by=("tests/project/test_power_cut.py::test_a_start_from_a_savepoint",),
    ),
    Mutant(
        name="steps that have changed places take each other's state",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/changes.py",
        before="""    moved = [now.operators[number] for number, before in operators.items() if number != before]
""",
        after="""    moved = [now.operators[number] for number, before in operators.items() if number == before < 0]
""",
        caught_by=(
            "tests/spark_jobs/savepoints/test_changes.py::test_without_a_savepoint_steps_with_state_keep_their_places",
        ),
    ),
    Mutant(
        name="state that the new query lacks is left behind without a word",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/changes.py",
        before="""        (*dropped, *left),
""",
        after="""        tuple(dropped),
""",
        caught_by=("tests/spark_jobs/savepoints/test_changes.py::test_state_and_positions_are_found_by_their_names",),
    ),
    Mutant(
        name="positions of a source that is gone are left behind without a word",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/changes.py",
        before='    dropped = [f"positions of source {name}" for name in then.sources if name not in now.sources]',
        after='    dropped = [f"positions of source {name}" for name in then.sources if not name]',
        caught_by=("tests/spark_jobs/savepoints/test_changes.py::test_state_and_positions_are_found_by_their_names",),
    ),
    Mutant(
        name="what a start from a savepoint reads again is not told",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/repeated_records.py",
        before="""            if source in sources and is_before(first, end):
""",
        after="""            if source in sources and is_before(end, first):
""",
        caught_by=("tests/spark_jobs/savepoints/test_changes.py::test_of_another_life_only_what_that_one_has_read",),
    ),
    Mutant(
        name="a start from a savepoint of another life tells of no other life",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/repeated_records.py",
        before="other_life = not is_of(head, at.incarnation, savepoint)",
        after="other_life = False",
        caught_by=("tests/spark_jobs/savepoints/test_changes.py::test_of_another_life_only_what_that_one_has_read",),
    ),
    Mutant(
        name="a start from a savepoint writes rows twice without being asked",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/from_savepoint.py",
        before="""    if beginning.repeated.any and not allowed.duplicates:
""",
        after="""    if beginning.repeated.any and allowed.duplicates:
""",
        caught_by=("tests/spark_jobs/operations/test_from_savepoint.py::test_rows_are_written_twice_on_purpose_alone",),
    ),
    Mutant(
        name="a start from a savepoint leaves state behind without being asked",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/from_savepoint.py",
        before="""    if changes.not_restored and not allowed.non_restored_state:
""",
        after="""    if changes.not_restored and allowed.non_restored_state:
""",
        caught_by=(
            "tests/spark_jobs/operations/test_from_savepoint.py::test_state_is_left_behind_on_purpose_alone_and_positions_stay",
        ),
    ),
    Mutant(
        name="a pipeline whose state is lost goes on as if it were there",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/from_savepoint.py",
        before="""    if spark.query_id != head.query_id or spark.newest_planned < head.completed:
        return False""",
        after="""    if spark.query_id is None and head.query_id is None:
        return False""",
        caught_by=(
            "tests/spark_jobs/operations/test_from_savepoint.py::test_a_pipeline_whose_state_is_lost_gets_that_of_the_savepoint",
        ),
    ),
    Mutant(
        name="a source that is new since the savepoint begins at the end of another",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/from_savepoint.py",
        before="""        if source.name in at.initial:
""",
        after="""        if at.initial:
""",
        caught_by=(
            "tests/spark_jobs/operations/test_from_savepoint.py::test_a_source_that_is_new_begins_where_it_says_and_the_others_where_they_were",
        ),
    ),
    Mutant(
        name="a start from a savepoint without state goes back to where the splits began",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/from_savepoint.py",
        before="StartingPoint({**each.positions, **positions.get(name, {})}, each.identities)",
        after="StartingPoint(each.positions, each.identities)",
        caught_by=(
            "tests/spark_jobs/operations/test_from_savepoint.py::test_state_is_left_behind_on_purpose_alone_and_positions_stay",
        ),
    ),
    Mutant(
        name="half of a folder that a start from a savepoint has left is taken for whole",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/operations/from_savepoint.py",
        before="""    sweep(each for each in held if head is None or each.name != head.incarnation)
""",
        after="",
        caught_by=(
            "tests/spark_jobs/operations/test_from_savepoint.py::test_a_folder_that_a_start_was_killed_over_is_taken_away",
        ),
    ),
)
