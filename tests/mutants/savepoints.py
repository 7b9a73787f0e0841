"""What a savepoint is taken of, and when it is one."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_STORE: Final = "spark_jobs/savepoints/store.py"
_IN_STORE: Final = "spark_jobs/savepoints/store_savepoint.py"
_STORE_TESTS: Final = "tests/spark_jobs/savepoints/test_store.py"

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
        path="spark_jobs/savepoints/folder.py",
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
        path="spark_jobs/savepoints/folder.py",
        before="""        with locked(partial):
            yield _Writing(partial, target)
""",
        after="""        with locked(target):
            yield _Writing(target, target)
""",
        caught_by=("tests/spark_jobs/savepoints/test_take.py::test_one_that_was_cut_short_is_not_called_one",),
    ),
    Mutant(
        name="files of a savepoint are not on disk when its manifest is",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/folder.py",
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
        path="spark_jobs/savepoints/folder.py",
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
        path="spark_jobs/savepoints/folder.py",
        before="""        sync_folders(self.partial)
""",
        after="",
        caught_by=("tests/project/test_power_cut.py::test_a_savepoint",),
    ),
    Mutant(
        name="the name of a savepoint is not on disk when it is told",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/savepoints/folder.py",
        before="""        self.partial.rename(self.target)
        sync(self.target.parent)
""",
        after="""        self.partial.rename(self.target)
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
    Mutant(
        name="a savepoint in a store has its manifest before its files (H42)",
        rule="H42",
        path=_STORE,
        before="""        entries: dict[str, Entry] = {}
        sources""",
        after="""        entries: dict[str, Entry] = {}
        self.publish(b"early")
        sources""",
        caught_by=(f"{_STORE_TESTS}::test_an_unfinished_one_is_discarded_and_its_writer_is_refused",),
    ),
    Mutant(
        name="a writer that knows nothing of its manifest deletes the files of the savepoint (H42)",
        rule="H42",
        path=_STORE,
        before="        self._may_be_one = True\n",
        after="",
        caught_by=(f"{_STORE_TESTS}::test_a_manifest_of_which_nothing_is_known_leaves_everything",),
    ),
    Mutant(
        name="an unfinished savepoint is deleted without a mark (H42)",
        rule="H42",
        path=_IN_STORE,
        before="                put(self._storage, manifests.NAME, io.BytesIO(DISCARDED))\n",
        after="                pass\n",
        caught_by=(f"{_STORE_TESTS}::test_an_unfinished_one_is_discarded_and_its_writer_is_refused",),
    ),
    Mutant(
        name="files of others in a store are deleted with a savepoint",
        rule="docs/how-to/savepoints.md",
        path=_IN_STORE,
        before="        if others := self._strangers(manifest):\n",
        after="        if others := ():\n",
        caught_by=(f"{_STORE_TESTS}::test_files_of_others_are_not_deleted_with_it",),
    ),
    Mutant(
        name="a disposal in a store deletes the manifest last (H42)",
        rule="H42",
        path=_IN_STORE,
        before="""            self._storage.delete(manifests.NAME)
        self._delete(manifest.files)
""",
        after="""            self._delete(manifest.files)
            self._storage.delete(manifests.NAME)
""",
        caught_by=(f"{_STORE_TESTS}::test_a_disposal_that_is_cut_off_leaves_no_savepoint",),
    ),
    Mutant(
        name="a file of a savepoint in a store that was altered is not noticed",
        rule="docs/how-to/savepoints.md",
        path=_IN_STORE,
        before='        return "" if digest.hexdigest() == entry.sha256 else "its content does not match its hash"\n',
        after='        return "" if digest.hexdigest() else "its content does not match its hash"\n',
        caught_by=(f"{_STORE_TESTS}::test_damage_is_found_before_anything_is_used",),
    ),
    Mutant(
        name="a manifest in a store names a file outside its savepoint",
        rule="docs/how-to/savepoints.md",
        path=_IN_STORE,
        before="""                check_name(path)
        except""",
        after="""                str(path)
        except""",
        caught_by=(f"{_STORE_TESTS}::test_a_manifest_names_nothing_outside",),
    ),
)
