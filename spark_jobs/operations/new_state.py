"""The state of a pipeline that starts from a savepoint with other steps than the savepoint's.

An operator that both queries have keeps its state, moved to its new number. One that only the new query has begins
with the empty state of a trial. One whose integers have become wider gets its state rewritten.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from connectors.spec import Spec
from eos.errors import SavepointError
from spark_jobs.operations import spark_rewriting
from spark_jobs.operations.spark_rewriting import EmptyState
from spark_jobs.operations.trial import trial_of
from spark_jobs.operations.widening import Widening, rewrite, widening
from spark_jobs.query.spark_log import quoted_in
from spark_jobs.query.state_files import state_ids
from spark_jobs.run.pipeline import output_mode
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.changes import Changes, compare
from spark_jobs.savepoints.manifest import Manifest
from spark_jobs.savepoints.plan import Plan, names
from spark_jobs.session.locked_dirs import temporary_at
from spark_jobs.session.versions import WIDEN, installed, refusal
from twophase import faults


@dataclass(frozen=True, slots=True)
class Start:
    """A query, and the savepoint that it is to start from."""

    spark: SparkSession
    spec: Spec
    rows: DataFrame
    plan: Plan  # of `rows`
    savepoint: Path
    manifest: Manifest

    @property
    def kept(self) -> Path:
        """Spark's folder in the savepoint."""
        return self.savepoint / manifests.SPARK

    def of_checkpoint(self, log: str) -> Path:
        """Return the entry of Spark's `offsets` or `commits` for the checkpoint of the savepoint."""
        return self.kept / log / str(self.manifest.checkpoint_id)


@dataclass(frozen=True, slots=True)
class NewState:
    """The fate of each operator's state, and the files that it is written from."""

    changes: Changes
    empty: EmptyState | None = None
    widenings: Mapping[int, Widening] = field(default_factory=dict)  # by Spark's number in the new query

    def write(self, start: Start, folder: Path) -> None:
        """Fill Spark's folder of the new incarnation. Nothing where no state is kept: Spark begins with batch 0.

        Raises SavepointError where it cannot be written, and the errors of `widening.rewrite`.
        """
        if self.changes.operators is None:
            return
        try:
            spark_rewriting.write(
                start.savepoint, start.manifest, folder, start.plan.sources, self.changes.operators, self.empty
            )
            for number, change in self.widenings.items():
                self._widen(start, folder, number, change)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            message = f"Spark's folder cannot be written: {error.filename}: {error.strerror}"
            raise SavepointError(message, remedy="see that there is room at the checkpoint location") from error

    def _widen(self, start: Start, folder: Path, number: int, change: Widening) -> None:
        assert self.empty is not None, "a trial has the new types"
        checkpoint_id = start.manifest.checkpoint_id
        with temporary_at(start.spec.checkpoint.folder, "widening") as target:
            (target / "offsets").mkdir()
            shutil.copy(folder / "offsets" / str(checkpoint_id), target / "offsets")
            spark_rewriting.describe_state(self.empty.trial, target, number)
            ids = rewrite(start.spark, folder, target, checkpoint_id, number, change)
            faults.point("state-widened", checkpoint_id)
            spark_rewriting.replace_state(folder, checkpoint_id, target, ids)


@contextmanager
def state_of(start: Start) -> Iterator[NewState]:
    """Find the fate of each operator's state; its files exist during this block. Runs a trial where operators are new.

    Raises the errors of `trial_of`.
    """
    manifest, plan = start.manifest, start.plan
    kept = len(state_ids(start.of_checkpoint("commits").read_text()))
    changes = compare(manifest.plan, plan, kept)
    if not (changes.empty or changes.widened):
        yield NewState(changes)
        return
    offsets = spark_rewriting.offsets(start.of_checkpoint("offsets").read_text(), plan.sources)
    location, metadata = start.spec.checkpoint.folder, start.kept / "metadata"
    with trial_of(start.spark, start.rows, output_mode(start.spec), offsets, metadata, location) as trial:
        _check_numbers(trial, plan)
        found = {number: _widening(start, changes, trial, number) for number in changes.widened}
        refused = {number: each for number, each in found.items() if isinstance(each, str)}
        changes = compare(manifest.plan, plan, kept, refused)
        widenings = {number: each for number, each in found.items() if isinstance(each, Widening) and each.changes_rows}
        yield NewState(changes, EmptyState(trial, changes.empty), widenings)


def _check_numbers(trial: Path, plan: Plan) -> None:
    """Raise SavepointError where Spark has other operators than the plan: their numbers would be of others."""
    count = len(state_ids((trial / "commits" / "0").read_text()))
    if count != len(plan.operators):
        message = (
            f"the steps have {len(plan.operators)} operators with state ({names(plan.operators)}), and Spark {count}"
        )
        raise SavepointError(message, remedy="remove the steps that are added, or begin by `eos reset --to`")


def _widening(start: Start, changes: Changes, trial: Path, number: int) -> Widening | str:
    assert changes.operators is not None
    change = widening(start.kept, changes.operators[number], trial, number)
    location = start.spec.checkpoint.folder
    if isinstance(change, str) or not change.changes_rows:
        return change
    if old := refusal(WIDEN, installed()):
        return f"{old.message} ({old.remedy})"
    if quoted := quoted_in(location):
        return f"Spark cannot rewrite state at {location}: it does not find a path with {quoted!r}"
    return change
