"""Syncs without which a power cut takes a path, or brings back a file."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_RULE: Final = "docs/explanation/protocol.md, What may happen, and what follows"
_TESTS: Final = "tests/project/test_power_cut.py"

MUTANTS: Final = (
    Mutant(
        name="only the folder above a new folder is synced",
        rule=_RULE,
        path="wal/durable.py",
        before="    for parent in child.parents:\n",
        after="    for parent in child.parents[:1]:\n",
        caught_by=(f"{_TESTS}::test_a_swap_of_head_and_its_record",),
    ),
    Mutant(
        name="the path to head is not synced",
        rule=_RULE,
        path="twophase/local_head.py",
        before="            make_durable(self._head)\n",
        after="            make_private(self._head)\n",
        caught_by=(f"{_TESTS}::test_folders_that_another_process_created_and_did_not_sync",),
    ),
    Mutant(
        name="the path to a log is not synced",
        rule=_RULE,
        path="wal/private.py",
        before="    sync_ancestors(folder)\n",
        after="    folder.stat()\n",
        caught_by=(f"{_TESTS}::test_a_segment_of_the_log",),
    ),
    Mutant(
        name="the path to Spark's folder is not synced before head has the query's id",
        rule=_RULE,
        path="spark_jobs/query/spark_log.py",
        before="        sync_ancestors(folder)\n",
        after="",
        caught_by=(f"{_TESTS}::test_a_completed_checkpoint",),
    ),
    Mutant(
        name="the path to Spark's folder of a start from a savepoint is not synced",
        rule=_RULE,
        path="spark_jobs/operations/spark_rewriting.py",
        before="    sync_ancestors(target)\n",
        after="",
        caught_by=(f"{_TESTS}::test_a_start_from_a_savepoint",),
    ),
    Mutant(
        name="a savepoint's lock file is removed after its folder was synced",
        rule=_RULE,
        path="spark_jobs/savepoints/folder.py",
        before="        (self.partial / LOCK).unlink()\n        sync(self.partial)",
        after="        sync(self.partial)\n        (self.partial / LOCK).unlink()",
        caught_by=(f"{_TESTS}::test_a_savepoint",),
    ),
    Mutant(
        name="a file is renamed into a folder that is not synced",
        rule=_RULE,
        path="wal/private.py",
        before="    sync(path.parent)\n",
        after="",
        caught_by=(f"{_TESTS}::test_the_names_of_the_steps",),
    ),
)
