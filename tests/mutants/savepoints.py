"""What a savepoint is taken of, and when it is one."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="a savepoint takes a checkpoint that Spark has not done",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/take.py",
        before='min(head.committed, newest_whole(folder / "commits"))',
        after="head.committed",
        caught_by=(
            "tests/spark_jobs/savepoints/test_take.py::test_positions_before_a_checkpoint_whose_record_is_gone_are_not_guessed",
        ),
    ),
    Mutant(
        name="a savepoint has the positions after a later checkpoint",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/take.py",
        before="""        if record.checkpoint_id > number:
            for source""",
        after="""        if record.checkpoint_id > number + 1:
            for source""",
        caught_by=("tests/spark_jobs/savepoints/test_take.py::test_a_checkpoint_that_spark_has_not_done_is_left_out",),
    ),
    Mutant(
        name="positions of a checkpoint whose record is gone are guessed",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/take.py",
        before="""    if missing := set(range(number + 1, status.head.completed + 1)) - later:
""",
        after="""    if missing := set(range(number + 2, status.head.completed + 1)) - later:
""",
        caught_by=(
            "tests/spark_jobs/savepoints/test_take.py::test_positions_before_a_checkpoint_whose_record_is_gone_are_not_guessed",
        ),
    ),
    Mutant(
        name="a savepoint of a stopped pipeline lacks what waits for its commit",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/take.py",
        before="""    if head.completed > head.committed and not is_running and spec.sources:
""",
        after="""    if head.completed > head.committed and head.completed < 0:
""",
        caught_by=(
            "tests/spark_jobs/savepoints/test_take.py::test_what_is_decided_and_not_committed_of_a_stopped_pipeline_is_brought_to_its_end_first",
        ),
    ),
    Mutant(
        name="a savepoint shares its files with Spark",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/take.py",
        before="""    shutil.copyfile(source, target)
    sync(target)
""",
        after="""    os.link(source, target)
    sync(target)
""",
        caught_by=("tests/spark_jobs/savepoints/test_take.py::test_a_pin_is_no_copy_and_a_copy_no_link",),
    ),
    Mutant(
        name="a savepoint lacks a file that Spark deletes while it is copied",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/take.py",
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
        caught_by=(
            "tests/spark_jobs/savepoints/test_take.py::test_what_spark_deletes_meanwhile_is_taken_of_a_newer_checkpoint",
        ),
    ),
    Mutant(
        name="a savepoint has its name before its manifest",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/take.py",
        before="""        _store(partial / manifests.NAME, manifests.encode(manifest))
""",
        after="""        partial.rename(folder)
        partial = folder
        _store(partial / manifests.NAME, manifests.encode(manifest))
""",
        caught_by=("tests/spark_jobs/savepoints/test_take.py::test_one_that_was_cut_short_is_not_called_one",),
    ),
    Mutant(
        name="files of a savepoint are not on disk when its manifest is",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/take.py",
        before="""    shutil.copyfile(source, target)
    sync(target)
""",
        after="""    shutil.copyfile(source, target)
""",
        caught_by=("tests/project/test_power_cut.py::test_a_savepoint",),
    ),
    Mutant(
        name="the manifest of a savepoint is not on disk when the savepoint is told",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/take.py",
        before="""        file.flush()
        os.fsync(file.fileno())
""",
        after="""        file.flush()
""",
        caught_by=("tests/project/test_power_cut.py::test_a_savepoint",),
    ),
    Mutant(
        name="the names within a savepoint are not on disk when its manifest is",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/take.py",
        before="""        sync_folders(partial)
""",
        after="",
        caught_by=("tests/project/test_power_cut.py::test_a_savepoint",),
    ),
    Mutant(
        name="the name of a savepoint is not on disk when it is told",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/take.py",
        before="""        partial.rename(folder)
        sync(into)
""",
        after="""        partial.rename(folder)
""",
        caught_by=("tests/project/test_power_cut.py::test_a_savepoint",),
    ),
    Mutant(
        name="of state that changes were written upon the newest snapshot is left out",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/query/state_files.py",
        before="""        if snapshots and len(ids) == 1:
""",
        after="""        if snapshots:
""",
        caught_by=("tests/spark_jobs/savepoints/test_take.py::test_a_changelog_needs_what_it_was_written_upon",),
    ),
    Mutant(
        name="files of state that a losing task wrote are taken for the decided ones",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/query/state_files.py",
        before="""                store = _store(state / str(partition), checkpoint_id + 1, each)
                paths += [_in(folder, path) for path in _of_version(store, checkpoint_id + 1, each)]
""",
        after="""                store = _store(state / str(partition), checkpoint_id, each)
                paths += [_in(folder, path) for path in _of_version(store, checkpoint_id, each)]
""",
        caught_by=("tests/spark_jobs/savepoints/test_take.py::test_a_changelog_needs_what_it_was_written_upon",),
    ),
    Mutant(
        name="what an operator becomes after the savepoint is taken with it",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/query/state_files.py",
        before="""int(path.name) > checkpoint_id
""",
        after="""int(path.name) < 0
""",
        caught_by=(
            "tests/spark_jobs/savepoints/test_take.py::test_what_spark_says_of_an_operator_later_on_is_left_out",
        ),
    ),
    Mutant(
        name="a savepoint without the plan before its batch",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/query/state_files.py",
        before='[f"offsets/{checkpoint_id - 1}"] if checkpoint_id > 0 else []',
        after="[]",
        caught_by=("tests/spark_jobs/savepoints/test_take.py::test_it_holds_the_newest_checkpoint_and_nothing_else",),
    ),
    Mutant(
        name="a savepoint of another format is read",
        rule="docs/explanation/protocol.md, Formats",
        path="spark_jobs/savepoints/manifest.py",
        before='        check_readable(document, str(where), FORMAT, "use the version that wrote it, or a newer one")\n',
        after="",
        caught_by=("tests/spark_jobs/savepoints/test_format.py::test_of_somebody_else_or_of_a_newer_version",),
    ),
    Mutant(
        name="a manifest that is damaged is believed",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/manifest.py",
        before="""        if document.pop("checksum") != sha256_of(_dump(document)):
""",
        after="""        if not document.pop("checksum"):
""",
        caught_by=("tests/spark_jobs/savepoints/test_format.py::test_damage_is_told",),
    ),
)
