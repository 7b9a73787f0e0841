"""Repairs beside dead letters."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_RULE: Final = "docs/how-to/repair.md, Beside dead letters"
_DECIDED: Final = "tests/twophase/test_repair.py"
_WRITTEN: Final = "tests/spark_jobs/batch/test_batch.py"
_FOUND: Final = "tests/spark_jobs/operations/test_repairing_dead_letters.py"

MUTANTS: Final = (
    Mutant(
        name="a repair takes other refused rows for those whose dead letters are there",
        rule=_RULE,
        path="twophase/repair.py",
        before="    if exact and now.refused_digest != then.refused_digest:\n",
        after="    if exact and not now.refused and then.refused:\n",
        caught_by=(f"{_DECIDED}::test_what_does_not_fit_the_dead_letters_is_not_decided",),
    ),
    Mutant(
        name="a repair refuses other rows where their dead letters are lost with them",
        rule=_RULE,
        path="twophase/repair.py",
        before="exact=bool(counted)",
        after="exact=True",
        caught_by=(
            f"{_DECIDED}::test_dead_letters_that_are_lost_with_their_rows_are_of_the_rows_that_are_refused_now",
        ),
    ),
    Mutant(
        name="a repair does not compare how many dead letters there are",
        rule=_RULE,
        path="twophase/repair.py",
        before="            if sink in loss.lost or number != wanted:\n",
        after="            if sink in loss.lost:\n",
        caught_by=(f"{_DECIDED}::test_what_does_not_fit_the_dead_letters_is_not_decided",),
    ),
    Mutant(
        name="a repair counts dead letters that are lost, and writes none",
        rule=_RULE,
        path="twophase/repair.py",
        before="            if sink in loss.lost or number != wanted:\n",
        after="            if number != wanted:\n",
        caught_by=(f"{_DECIDED}::test_a_sink_of_dead_letters_is_counted_or_written_and_never_left_out",),
    ),
    Mutant(
        name="a repair forgets the dead letters of tasks that have lost nothing",
        rule=_RULE,
        path="spark_jobs/batch/batch.py",
        before="now + sum(each.refused for _, each in kept_refused)",
        after="now",
        caught_by=(f"{_WRITTEN}::test_r7_dead_letters_that_are_there_are_counted_and_not_written",),
    ),
    Mutant(
        name="a repair writes dead letters that are there a second time",
        rule=_RULE,
        path="spark_jobs/batch/batch.py",
        before="if letters is not None and letters_lost:",
        after="if letters is not None:",
        caught_by=(f"{_WRITTEN}::test_r7_dead_letters_that_are_there_are_counted_and_not_written",),
    ),
    Mutant(
        name="a repair writes the dead letters of some refused rows for those of all",
        rule=_RULE,
        path="spark_jobs/operations/repair.py",
        before="            if each.refused and each.rows:\n",
        after="            if each.refused and each.rows and not lost:\n",
        caught_by=(f"{_FOUND}::test_dead_letters_of_refused_rows_are_found_where_their_rows_are_lost_too",),
    ),
    Mutant(
        name="a repair takes a task of dead letters that wrote none for one that has lost none",
        rule=_RULE,
        path="spark_jobs/operations/repair.py",
        before="(sink == letters.name and each.rows > 0)",
        after="(sink == letters.name)",
        caught_by=(f"{_FOUND}::test_dead_letters_of_refused_rows_are_found_where_their_rows_are_lost_too",),
    ),
    Mutant(
        name="a repair sifts a checkpoint that was not sifted",
        rule=_RULE,
        path="spark_jobs/batch/batch.py",
        before="letters.most if letters is not None and sifted else None",
        after="letters.most if letters is not None else None",
        caught_by=(f"{_WRITTEN}::test_r7_a_checkpoint_of_which_no_row_was_refused_is_written_again_as_it_was",),
    ),
    Mutant(
        name="a repair counts rows that were all refused, where their dead letters are lost",
        rule=_RULE,
        path="spark_jobs/batch/batch.py",
        before="all_refused if letters_lost else frozenset()",
        after="frozenset()",
        caught_by=(f"{_WRITTEN}::test_r7_where_a_task_gave_nothing_but_refused_rows_all_of_them_are_refused_again",),
    ),
    Mutant(
        name="a repair shares rows out as they are since a dead letter joined",
        rule=_RULE,
        path="spark_jobs/operations/repair.py",
        before="self._letters is not None and self._letters.name in record.committables else None",
        after="self._letters is not None and record.committables else None",
        caught_by=(f"{_FOUND}::test_rows_are_shared_out_as_they_were_before_a_dead_letter_joined",),
    ),
    Mutant(
        name="the digest of refused rows knows the last of them alone",
        rule=_RULE,
        path="connectors/row_bisector.py",
        before="(self.digests[sink] + _hash(letter)) % 2**64",
        after="_hash(letter)",
        caught_by=(
            "tests/connectors/test_dead_letters.py::test_refused_rows_are_known_by_their_digest_whatever_their_order_and_error",
        ),
    ),
)
