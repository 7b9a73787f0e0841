"""Savepoints: what is taken, and what a start from one makes of it."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
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
