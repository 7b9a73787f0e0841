"""Commands that divide state, and take, begin from or delete savepoints."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_RESCALE: Final = "spark_jobs/cli/rescale.py"
_BEGIN: Final = "spark_jobs/operations/from_savepoint.py"
_FOLDER: Final = "spark_jobs/savepoints/folder.py"
_MANIFEST: Final = "spark_jobs/savepoints/manifest.py"
_BEGIN_TESTS: Final = "tests/spark_jobs/operations/test_begin_from_savepoint.py"
_RESCALE_TESTS: Final = "tests/spark_jobs/cli/test_rescale.py"
_FORMAT_TESTS: Final = "tests/spark_jobs/savepoints/test_format.py"

MUTANTS: Final = (
    Mutant(
        name="a rescale does not look whether the pipeline runs",
        rule="R2",
        path=_RESCALE,
        before="    check_stopped(spec)\n",
        after="",
        caught_by=(f"{_RESCALE_TESTS}::test_it_is_refused_while_the_pipeline_runs_or_another_one_is_under_way",),
    ),
    Mutant(
        name="two rescales at once",
        rule="R2",
        path=_RESCALE,
        before='    with alone(loaded, "rescale"):\n',
        after="    if True:\n",
        caught_by=(f"{_RESCALE_TESTS}::test_it_is_refused_while_the_pipeline_runs_or_another_one_is_under_way",),
    ),
    Mutant(
        name="a rescale to another number than the spec's is done",
        rule="docs/how-to/rescaling.md",
        path=_RESCALE,
        before="    if said != str(state_partitions):\n",
        after="    if not said:\n",
        caught_by=(f"{_RESCALE_TESTS}::test_a_spec_that_does_not_fit_is_refused",),
    ),
    Mutant(
        name="a rescale with another number goes on where one has not ended",
        rule="docs/how-to/rescaling.md",
        path=_RESCALE,
        before='        what = "finish" if unfinished == wanted else "take back"\n',
        after='        what = "finish"\n',
        caught_by=(f"{_RESCALE_TESTS}::test_it_says_what_it_would_do_and_does_nothing",),
    ),
    Mutant(
        name="state that the new spec cannot take is left behind without a word",
        rule="docs/how-to/savepoints.md",
        path=_BEGIN,
        before="    if changes.not_restored and not allowed.non_restored_state:\n",
        after="    if changes.not_restored and not allowed.duplicates:\n",
        caught_by=(f"{_BEGIN_TESTS}::test_what_is_lost_or_repeated_takes_an_option_of_its_own",),
    ),
    Mutant(
        name="rows are written twice from a savepoint without a word",
        rule="R2",
        path=_BEGIN,
        before="    if beginning.repeated.any and not allowed.duplicates:\n",
        after="    if beginning.repeated.splits and not allowed.take_over:\n",
        caught_by=(f"{_BEGIN_TESTS}::test_what_is_lost_or_repeated_takes_an_option_of_its_own",),
    ),
    Mutant(
        name="a start from a savepoint ends a life of the pipeline that it does not know",
        rule="R2",
        path=_BEGIN,
        before="    if beginning.repeated.other_life and not allowed.take_over:\n",
        after="    if beginning.repeated.other_life and not allowed.duplicates:\n",
        caught_by=(f"{_BEGIN_TESTS}::test_what_is_lost_or_repeated_takes_an_option_of_its_own",),
    ),
    Mutant(
        name="a start from a savepoint does not look whether the pipeline runs",
        rule="R2",
        path=_BEGIN,
        before="    check_stopped(spec)\n",
        after="",
        caught_by=(f"{_BEGIN_TESTS}::test_a_pipeline_that_runs_is_left_alone",),
    ),
    Mutant(
        name="a pipeline begins from a savepoint that is damaged",
        rule="docs/how-to/savepoints.md",
        path=_FOLDER,
        before="        yield Whole(self.at, manifests.checked(self.at))\n",
        after="        yield Whole(self.at, manifests.read(self.at))\n",
        caught_by=(f"{_BEGIN_TESTS}::test_a_savepoint_that_is_damaged_is_not_begun_from",),
    ),
    Mutant(
        name="a pipeline goes on beside a savepoint though its Spark checkpoint is lost",
        rule="docs/how-to/savepoints.md",
        path=_BEGIN,
        before="    if spark.query_id != head.query_id or spark.newest_planned < head.completed:\n",
        after="    if spark.query_id != head.query_id:\n",
        caught_by=(f"{_BEGIN_TESTS}::test_a_pipeline_is_only_gone_on_with_where_nothing_differs",),
    ),
    Mutant(
        name="files that are not the savepoint's are deleted with it",
        rule="docs/how-to/savepoints.md",
        path=_FOLDER,
        before="        if others := manifests.strangers(folder, manifest):\n",
        after="        if (others := manifests.strangers(folder, manifest)) and not folder.is_dir():\n",
        caught_by=(f"{_FORMAT_TESTS}::test_only_savepoints_are_disposed_of",),
    ),
    Mutant(
        name="a manifest names a file outside its savepoint",
        rule="docs/how-to/savepoints.md",
        path="spark_jobs/query/state_files.py",
        before='or ".." in PurePosixPath(path).parts:\n',
        after='or "..." in PurePosixPath(path).parts:\n',
        caught_by=(f"{_FORMAT_TESTS}::test_a_manifest_names_nothing_outside",),
    ),
    Mutant(
        name="a file of a savepoint that was altered is not noticed",
        rule="docs/how-to/savepoints.md",
        path=_MANIFEST,
        before="        elif digest != entry.sha256:\n",
        after="        elif not digest:\n",
        caught_by=(f"{_FORMAT_TESTS}::test_damage_is_told",),
    ),
)
