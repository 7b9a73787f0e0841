"""State in an object store: what a start rests on, and what a driver may delete."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_STORE: Final = "spark_jobs/query/kept_state.py"
_MANIFEST: Final = "spark_jobs/query/state_manifest.py"
_TESTS: Final = "tests/spark_jobs/query/test_kept_state.py"
_HISTORIES: Final = "tests/spark_jobs/query/test_kept_state_histories.py"
_LOG_TESTS: Final = "tests/spark_jobs/query/test_rebuilt_spark_log.py"
_MODEL: Final = "tests/model/test_kept_state.py::test_a_start_finds_a_whole_state_in_every_world"

MUTANTS: Final = (
    Mutant(
        name="a checkpoint is decided before the state that it rests on is kept",
        rule="R6",
        path="twophase/checkpoint.py",
        before="    yield from messages.AwaitState(scope.checkpoint_id - 1)  # a replay",
        after="    yield from messages.AwaitState(-1)  # a replay",
        caught_by=("tests/twophase/test_checkpoint.py::test_a_decision_rests_on_the_state_before_it",),
    ),
    Mutant(
        name="a driver deletes the state of a newer one",
        rule="H38",
        path=_MANIFEST,
        before='if int(m["epoch"]) <= epoch and ',
        after="if ",
        caught_by=(f"{_TESTS}::test_objects_of_newer_drivers_and_strangers_are_never_deleted",),
    ),
    Mutant(
        name="the files of a state that another driver has kept are deleted",
        rule="H38",
        path=_STORE,
        before="for name, each in (self._kept | self._others).items()",
        after="for name, each in self._kept.items()",
        caught_by=(f"{_TESTS}::test_a_state_of_another_driver_is_kept",),
    ),
    Mutant(
        name="a kept state has files of a state that head has not decided",
        rule="H38",
        path=_STORE,
        before="for kept in sorted(self._kept.values(), key",
        after="for kept in sorted((self._kept | self._others).values(), key",
        caught_by=(f"{_HISTORIES}::test_a_kept_state_has_the_bytes_of_its_driver",),
    ),
    Mutant(
        name="a start takes the state of the oldest driver",
        rule="H38",
        path=_MANIFEST,
        before='int(each["epoch"])), reverse=True)',
        after='-int(each["epoch"])), reverse=True)',
        caught_by=(_MODEL,),
    ),
    Mutant(
        name="other bytes are restored",
        rule="H38",
        path=_STORE,
        before="if _copy(content, partial, at.bytes) != at.sha256:",
        after="if not _copy(content, partial, at.bytes):",
        caught_by=(f"{_TESTS}::test_a_pack_that_is_not_whole",),
    ),
    Mutant(
        name="a manifest of other versions is taken for the one that was sent",
        rule="H38",
        path=_STORE,
        before="            if found.files[versions].sha256 != kept.files[versions].sha256:\n                raise\n",
        after="",
        caught_by=(f"{_TESTS}::test_an_answer_that_was_lost_is_no_failure",),
    ),
    Mutant(
        name="state that the commits log does not name is left out",
        rule="H38",
        path=_STORE,
        before="        if has_state and not state_ids(",
        after="        if not has_state and not state_ids(",
        caught_by=(f"{_TESTS}::test_state_that_the_commits_log_does_not_name_is_refused",),
    ),
    Mutant(
        name="a restore that was cut off counts as whole",
        rule="H38",
        path="spark_jobs/query/rebuilt_spark_log.py",
        before='                replace_durably(mark, b"")\n',
        after="",
        caught_by=("tests/spark_jobs/query/test_rebuilt_spark_log.py::test_a_restore_that_was_cut_off_is_repeated",),
    ),
    Mutant(
        name="a rescale deletes older states before it is decided",
        rule="H41",
        path=_STORE,
        before="        if is_decided:\n",
        after="        if is_decided or True:\n",
        caught_by=(f"{_TESTS}::test_a_state_that_is_not_decided_deletes_nothing",),
    ),
    Mutant(
        name="a start repeats a rescale over the state before",
        rule="H41",
        path="spark_jobs/query/rebuilt_spark_log.py",
        before="    return head.completed if is_rescale or is_first else -1",
        after="    return head.completed if is_first else -1",
        caught_by=(f"{_LOG_TESTS}::test_the_state_of_a_rescale_is_not_repeated",),
    ),
    Mutant(
        name="a savepoint is taken from the folder of a driver that was superseded",
        rule="H41",
        path="spark_jobs/query/rebuilt_spark_log.py",
        before="            if done[path] >= head.committed - 1 and ",
        after="            if done[path] >= 0 and ",
        caught_by=(f"{_LOG_TESTS}::test_a_frozen_driver_has_no_folder_for_a_savepoint",),
    ),
    Mutant(
        name="a start from a savepoint leaves the state of one that was killed",
        rule="H41",
        path="spark_jobs/query/state_keeping.py",
        before="            for each in (*noted, incarnation):\n",
        after="            for each in (incarnation,):\n",
        caught_by=(f"{_LOG_TESTS}::test_a_start_from_a_savepoint_deletes_what_others_have_left",),
    ),
)
