"""Savepoints: what is taken, and what a start from one makes of it."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="a savepoint takes a checkpoint that Spark has not done",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/point.py",
        before="min(head.committed, log.state(head.incarnation).newest_committed)",
        after="head.committed",
        caught_by=(
            "tests/test_savepoint_take.py::test_positions_before_a_checkpoint_whose_record_is_gone_are_not_guessed",
        ),
    ),
    Mutant(
        name="a savepoint has the positions after a later checkpoint",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/point.py",
        before="""        if record.checkpoint_id > number:
            for source""",
        after="""        if record.checkpoint_id > number + 1:
            for source""",
        caught_by=("tests/test_savepoint_take.py::test_a_checkpoint_that_spark_has_not_done_is_left_out",),
    ),
    Mutant(
        name="positions of a checkpoint whose record is gone are guessed",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/point.py",
        before="""    if missing := set(range(number + 1, status.head.completed + 1)) - later:
""",
        after="""    if missing := set(range(number + 2, status.head.completed + 1)) - later:
""",
        caught_by=(
            "tests/test_savepoint_take.py::test_positions_before_a_checkpoint_whose_record_is_gone_are_not_guessed",
        ),
    ),
    Mutant(
        name="a savepoint of a stopped pipeline lacks what waits for its commit",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/point.py",
        before="""    if head.completed > head.committed and running(spec) is None:
""",
        after="""    if head.completed > head.committed and head.completed < 0:
""",
        caught_by=(
            "tests/test_savepoint_take.py::test_what_is_decided_and_not_committed_of_a_stopped_pipeline_is_brought_to_its_end_first",
        ),
    ),
    Mutant(
        name="a savepoint shares its files with Spark",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/take.py",
        before="""    shutil.copyfile(source, target)
    sync(target)
""",
        after="""    os.link(source, target)
    sync(target)
""",
        caught_by=("tests/test_savepoint_take.py::test_a_pin_is_no_copy_and_a_copy_no_link",),
    ),
    Mutant(
        name="a savepoint lacks a file that Spark deletes while it is copied",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/take.py",
        before="""    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
""",
        after="""    try:
        os.link(source, target)
    except FileNotFoundError:
        return
""",
        caught_by=("tests/test_savepoint_take.py::test_what_spark_deletes_meanwhile_is_taken_of_a_newer_checkpoint",),
    ),
    Mutant(
        name="a savepoint has its name before its manifest",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/take.py",
        before="""        _store(partial / manifests.NAME, manifests.encode(manifest))
""",
        after="""        partial.rename(folder)
        partial = folder
        _store(partial / manifests.NAME, manifests.encode(manifest))
""",
        caught_by=("tests/test_savepoint_take.py::test_one_that_was_cut_short_is_not_called_one",),
    ),
    Mutant(
        name="of state that changes were written upon the newest snapshot is left out",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/spark_files.py",
        before="""        if snapshots and len(ids) == 1:
""",
        after="""        if snapshots:
""",
        caught_by=("tests/test_savepoint_take.py::test_a_changelog_needs_what_it_was_written_upon",),
    ),
    Mutant(
        name="files of state that a losing task wrote are taken for the decided ones",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/spark_files.py",
        before="""                store = _store(state / str(partition), checkpoint_id + 1, each)
                paths += [_in(folder, path) for path in _of_version(store, checkpoint_id + 1, each)]
""",
        after="""                store = _store(state / str(partition), checkpoint_id, each)
                paths += [_in(folder, path) for path in _of_version(store, checkpoint_id, each)]
""",
        caught_by=("tests/test_savepoint_take.py::test_a_changelog_needs_what_it_was_written_upon",),
    ),
    Mutant(
        name="what an operator becomes after the savepoint is taken with it",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/spark_files.py",
        before="""int(path.name) > checkpoint_id
""",
        after="""int(path.name) < 0
""",
        caught_by=("tests/test_savepoint_take.py::test_what_spark_says_of_an_operator_later_on_is_left_out",),
    ),
    Mutant(
        name="a savepoint without the plan before its batch",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/spark_files.py",
        before='[f"offsets/{checkpoint_id - 1}"] if checkpoint_id > 0 else []',
        after="[]",
        caught_by=("tests/test_savepoint_take.py::test_it_holds_the_newest_checkpoint_and_nothing_else",),
    ),
    Mutant(
        name="a savepoint of another format is read",
        rule="docs/protocol.md, Formats",
        path="spark_jobs/savepoint/manifest.py",
        before="""        if document["format"] != FORMAT:
""",
        after="""        if not document["format"]:
""",
        caught_by=("tests/test_savepoint_format.py::test_of_somebody_else_or_of_a_newer_version",),
    ),
    Mutant(
        name="a manifest that is damaged is believed",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/manifest.py",
        before="""        if document.pop("checksum") != sha256_of(_dump(document)):
""",
        after="""        if not document.pop("checksum"):
""",
        caught_by=("tests/test_savepoint_format.py::test_damage_is_told",),
    ),
    Mutant(
        name="state goes to the operator of the same number, whatever its name",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/rewriting.py",
        before="""            number = now.get(int(match["operator"]))
""",
        after="""            number = int(match["operator"])
""",
        caught_by=("tests/test_savepoint_changes.py::test_state_lies_under_its_new_number",),
    ),
    Mutant(
        name="state of a step that is gone is kept in what Spark commits",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/rewriting.py",
        before=" for number, each in ids.items() if int(number) in now}",
        after=" for number, each in ids.items()}",
        caught_by=("tests/test_savepoint_changes.py::test_state_lies_under_its_new_number",),
    ),
    Mutant(
        name="offsets go to the source in the same place, whatever its name",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/rewriting.py",
        before='*(known.get(name, "-") for name in sources)]',
        after="*lines]",
        caught_by=("tests/test_savepoint_changes.py::test_sources_stand_where_the_new_query_has_them",),
    ),
    Mutant(
        name="steps that have changed places take each other's state",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/changes.py",
        before="""    moved = [now.operators[number] for number, before in operators.items() if number != before]
""",
        after="""    moved = [now.operators[number] for number, before in operators.items() if number == before < 0]
""",
        caught_by=("tests/test_savepoint_changes.py::test_without_a_savepoint_steps_with_state_keep_their_places",),
    ),
    Mutant(
        name="state that the new query lacks is left behind without a word",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/changes.py",
        before="""    return Changes(tuple(changes), (*dropped, *(f"state of {each.named}" for each in lost)), restored)
""",
        after="""    return Changes(tuple(changes), tuple(dropped), restored)
""",
        caught_by=("tests/test_savepoint_changes.py::test_state_and_positions_are_found_by_their_names",),
    ),
    Mutant(
        name="positions of a source that is gone are left behind without a word",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/changes.py",
        before=" for name in then.sources if name not in now.sources]",
        after=" for name in then.sources if name in now.sources and not name]",
        caught_by=("tests/test_savepoint_changes.py::test_state_and_positions_are_found_by_their_names",),
    ),
    Mutant(
        name="what a start from a savepoint reads again is not told",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/repeated.py",
        before="""            if source in sources and end > first:
""",
        after="""            if source in sources and end < first:
""",
        caught_by=("tests/test_savepoint_changes.py::test_of_another_life_only_what_that_one_has_read",),
    ),
    Mutant(
        name="a start from a savepoint of another life tells of no other life",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/repeated.py",
        before="other_life=not is_of(head, at.incarnation, savepoint))",
        after="other_life=False)",
        caught_by=("tests/test_savepoint_changes.py::test_of_another_life_only_what_that_one_has_read",),
    ),
    Mutant(
        name="a start from a savepoint writes rows twice without being asked",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/start.py",
        before="""    if beginning.repeated.any and not allowed.duplicates:
""",
        after="""    if beginning.repeated.any and allowed.duplicates:
""",
        caught_by=("tests/test_savepoint_start.py::test_rows_are_written_twice_on_purpose_alone",),
    ),
    Mutant(
        name="a start from a savepoint leaves state behind without being asked",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/start.py",
        before="""    if changes.not_restored and not allowed.non_restored_state:
""",
        after="""    if changes.not_restored and allowed.non_restored_state:
""",
        caught_by=("tests/test_savepoint_start.py::test_state_is_left_behind_on_purpose_alone_and_positions_stay",),
    ),
    Mutant(
        name="a pipeline whose state is lost goes on as if it were there",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/start.py",
        before="""    if spark.query_id != head.query_id or spark.newest_planned < head.completed:
        return False""",
        after="""    if spark.query_id is None and head.query_id is None:
        return False""",
        caught_by=("tests/test_savepoint_start.py::test_a_pipeline_whose_state_is_lost_gets_that_of_the_savepoint",),
    ),
    Mutant(
        name="a source that is new since the savepoint begins at the end of another",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/start.py",
        before="""        if source.name in at.initial:
""",
        after="""        if at.initial:
""",
        caught_by=(
            "tests/test_savepoint_start.py::test_a_source_that_is_new_begins_where_it_says_and_the_others_where_they_were",
        ),
    ),
    Mutant(
        name="a start from a savepoint without state goes back to where the splits began",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/start.py",
        before="StartingPoint({**each.positions, **positions.get(name, {})}, each.identities)",
        after="StartingPoint(each.positions, each.identities)",
        caught_by=("tests/test_savepoint_start.py::test_state_is_left_behind_on_purpose_alone_and_positions_stay",),
    ),
    Mutant(
        name="files of a savepoint are not on disk when its manifest is",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/take.py",
        before="""    shutil.copyfile(source, target)
    sync(target)
""",
        after="""    shutil.copyfile(source, target)
""",
        caught_by=("tests/test_power_cut.py::test_a_savepoint",),
    ),
    Mutant(
        name="the manifest of a savepoint is not on disk when the savepoint is told",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/take.py",
        before="""        file.flush()
        os.fsync(file.fileno())
""",
        after="""        file.flush()
""",
        caught_by=("tests/test_power_cut.py::test_a_savepoint",),
    ),
    Mutant(
        name="the names within a savepoint are not on disk when its manifest is",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/take.py",
        before="""        sync_folders(partial)
""",
        after="",
        caught_by=("tests/test_power_cut.py::test_a_savepoint",),
    ),
    Mutant(
        name="the name of a savepoint is not on disk when it is told",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/take.py",
        before="""        partial.rename(folder)
        sync(into)
""",
        after="""        partial.rename(folder)
""",
        caught_by=("tests/test_power_cut.py::test_a_savepoint",),
    ),
    Mutant(
        name="state of a life from a savepoint is not on disk when head has it",
        rule="docs/savepoints.md",
        path="spark_jobs/savepoint/rewriting.py",
        before="""    shutil.copyfile(source, target)
    sync(target)
""",
        after="""    shutil.copyfile(source, target)
""",
        caught_by=("tests/test_power_cut.py::test_a_start_from_a_savepoint",),
    ),
)
