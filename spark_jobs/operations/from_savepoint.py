"""Begins a pipeline from a savepoint: says what that means, and then does it, or is refused with nothing changed."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from connectors.api.contracts import Source
from connectors.registry import build_sink, build_source, open_documents
from connectors.spec import Spec
from eos.errors import IdentityError, SavepointError
from spark_jobs.observe.head_reader import read_history
from spark_jobs.observe.history import recorder
from spark_jobs.observe.history.model import Event
from spark_jobs.observe.run_lock import check_stopped
from spark_jobs.operations import spark_rewriting
from spark_jobs.operations.new_state import NewState, Start, state_of
from spark_jobs.operations.repeated_records import Repeated, is_of, repeated
from spark_jobs.operations.set_back_since import check_not_set_back
from spark_jobs.query.rebuilt_spark_log import spark_log
from spark_jobs.query.spark_log import LocalSparkLog, planned
from spark_jobs.run.open_driver import open_driver
from spark_jobs.run.pipeline import check_version, root_rows
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints import plan as plans
from spark_jobs.savepoints.changes import Changes
from spark_jobs.savepoints.job import is_of_a_job
from spark_jobs.savepoints.manifest import Manifest
from spark_jobs.savepoints.place import At
from spark_jobs.savepoints.places import savepoint_at
from spark_jobs.savepoints.query import plan_of
from spark_jobs.session.locked_dirs import LOCK, locked, sweep
from twophase.abandoned import add_given_up
from twophase.codec import decode_head
from twophase.head_value import HeadValue
from twophase.positions import is_before
from twophase.reset import Begun
from twophase.restore import Seed, foreign_claims, of_another_incarnation
from twophase.status import Status
from twophase.values import OffsetRange, SinkState, StartingPoint


@dataclass(frozen=True, slots=True)
class Allowed:
    """What whoever starts it agrees to, and where it starts from."""

    at: At
    non_restored_state: bool = False
    duplicates: bool = False
    take_over: bool = False


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a start from a savepoint is going to do."""

    manifest: Manifest
    changes: Changes
    repeated: Repeated
    goes_on: bool  # the pipeline is where the savepoint is, with nothing changed: it is started as ever
    foreign: Mapping[str, str]  # sinks that another life of the pipeline has, with its incarnation
    forks: bool  # under another name


def begin(spec: Spec, spark: SparkSession, allowed: Allowed, tell: Callable[[Beginning], None]) -> None:
    """Have the next start of the pipeline begin where the savepoint stands. Called before it, by nobody else.

    `tell`: is told what will be done, before it is, and also where it is then refused.

    Raises SavepointError, SpecError, IdentityError, AlreadyRunningError, SparkUnavailableError with nothing changed;
    what `Driver.restore` raises, after which it can be made again.
    """
    check_stopped(spec)
    check_version(spark, spec)
    with savepoint_at(allowed.at).opened(spec.checkpoint.folder) as savepoint:
        if is_of_a_job(savepoint.manifest):
            message = f"{allowed.at} is a savepoint of a job with `ExactlyOnce`, and the spec has sources"
            raise SavepointError(message, remedy="give it to `eos savepoint restore`, with the spec of that job")
        sources = [build_source(entry) for entry in spec.sources]
        rows = root_rows(spark, spec, sources)
        start = Start(spark, spec, rows, plan_of(spec, rows), savepoint.folder, savepoint.manifest)
        with state_of(start) as state:
            _begin(start, state, sources, allowed, tell)


def _begin(
    start: Start, state: NewState, sources: Sequence[Source], allowed: Allowed, tell: Callable[[Beginning], None]
) -> None:
    spec, manifest, plan, changes = start.spec, start.manifest, start.plan, state.changes
    at = decode_head((start.savepoint / manifests.HEAD).read_bytes())
    status = read_history(spec)
    check_location(spec, status)
    sinks = [build_sink(spec, entry) for entry in spec.outputs]
    log = spark_log(spec)
    with open_driver(spec, sinks, log, session=f"{secrets.token_hex(8)}.0") as driver:
        head = status.head if status is not None else None
        states = driver.inspect(head.incarnation if head is not None else at.incarnation)
        check_not_set_back(at, manifests.record(start.savepoint, manifest), head, states)
        beginning = Beginning(
            manifest,
            changes,
            repeated(at, manifest.id, status, states, {each.name: each for each in sources}),
            head is not None and _goes_on(start, changes, head, log, states),
            foreign_claims(head, states),
            spec.pipeline != manifest.pipeline,
        )
        tell(beginning)
        check_allowed(spec.pipeline, beginning, allowed)
        if beginning.goes_on:
            return
        seed = _seed(at, manifest, changes, sources, start.savepoint, plan.sources)
        witnesses = _witnesses(start.savepoint, manifest, at) if changes.operators is None else {}
        check_readable(sources, seed, witnesses)
        with _spark_folder(log, driver.incarnation, head) as folder:
            noted = log.announce(driver.incarnation)
            state.write(start, folder)
            if changes.operators is not None and (plan.operators or spec.has_watermark):
                log.keep_first_state(driver.incarnation, head.epoch + 1 if head else 1, manifest.checkpoint_id)
            plans.keep(open_documents(spec), driver.incarnation, plan)
            begun = driver.restore(seed, expected=head, take_over=allowed.take_over)
        log.settle(driver.incarnation, noted)
        for ended in _ended(begun) if not begun.abandoned else ():  # its plans tell the offsets of what is gone
            log.forget(ended)
    message = f"begun from savepoint {manifest.id}, checkpoint {manifest.checkpoint_id}"
    facts = {"id": manifest.id, "folder": str(allowed.at), "ended": begun.ended}
    recorder.tell(spec, Event(time.time(), "savepoint", add_given_up(message, begun.abandoned), facts=facts))


def _ended(begun: Begun) -> Iterator[str]:
    """Lives of which nothing is needed any more: the one before, and one whose end a start was too dead to clear up."""
    if begun.ended is not None:
        yield begun.ended
    if begun.before is not None and begun.before.origin is not None and begun.before.origin.ended is not None:
        yield begun.before.origin.ended


def _goes_on(
    start: Start, changes: Changes, head: HeadValue, log: LocalSparkLog, states: Mapping[str, SinkState]
) -> bool:
    manifest, plan = start.manifest, start.plan
    if head.completed != manifest.checkpoint_id or not is_of(head, manifest.incarnation, manifest.id):
        return False
    spark = log.state(head.incarnation)
    if spark.query_id != head.query_id or spark.newest_planned < head.completed:
        return False  # Spark's checkpoint is lost: what the savepoint has of it takes its place
    if (plan.operators or start.spec.has_watermark) and not log.finds_state(head):
        return False
    same = manifest.plan is None or manifest.plan.sources == plan.sources
    ours = all(each.claim_incarnation == head.incarnation for each in states.values())
    return same and ours and changes.keeps_numbers and not changes.not_restored


def check_location(spec: Spec, status: Status | None) -> None:
    """Raise IdentityError where head is of a pipeline with another name."""
    if status is not None and status.head.pipeline != spec.pipeline:
        message = (
            f"the checkpoint location belongs to pipeline {status.head.pipeline!r}, the spec names {spec.pipeline!r}"
        )
        raise IdentityError(message, remedy="give this pipeline a checkpoint location of its own")


def check_allowed(pipeline: str, beginning: Beginning, allowed: Allowed) -> None:
    """Raise IdentityError or SavepointError for a start that needs an option which was not given."""
    changes = beginning.changes
    if changes.not_restored and not allowed.non_restored_state:
        message = f"the new spec cannot take over {', '.join(changes.not_restored)}"
        raise SavepointError(message, remedy="change the spec back, or leave it behind by --allow-non-restored-state")
    if beginning.foreign and not allowed.take_over:
        raise of_another_incarnation(pipeline, beginning.foreign)  # the protocol looks again before it changes anything
    if beginning.repeated.other_life and not allowed.take_over:
        message = "the pipeline has begun another incarnation since the savepoint was written"
        raise IdentityError(message, remedy="end that incarnation and start from the savepoint with --take-over")
    if beginning.repeated.any and not allowed.duplicates:
        message = f"{beginning.repeated}: the sinks hold rows of that already"
        raise IdentityError(
            message,
            remedy="continue without the savepoint, or accept that they are written twice: --accept-duplicates",
        )


def _seed(
    at: HeadValue,
    manifest: Manifest,
    changes: Changes,
    sources: Sequence[Source],
    folder: Path,
    order: Sequence[str],
) -> Seed:
    """The new life's beginning. A source that is new is asked where it begins (R6)."""
    begins, positions = {}, {}
    for source in sources:
        if source.name in at.initial:
            initial, identities = at.initial[source.name], at.identities.get(source.name, {})
            positions[source.name] = at.positions.get(source.name, {})
            begins[source.name] = StartingPoint(initial, identities)
        else:
            begins[source.name] = source.starting_point(StartingPoint())
    if changes.operators is None:
        goes_on = {
            name: StartingPoint({**each.positions, **positions.get(name, {})}, each.identities)
            for name, each in begins.items()
        }
        return Seed(manifest.id, -1, None, "", goes_on, {}, manifest.decided_at)
    number = manifest.checkpoint_id
    log = (folder / manifests.SPARK / "offsets" / str(number)).read_text()
    offsets_log = spark_rewriting.offsets(log, order)
    return Seed(
        manifest.id, number, at.query_id, offsets_log, begins, positions, manifest.decided_at, schemas=at.schemas
    )


@contextmanager
def _spark_folder(log: LocalSparkLog, incarnation: str, head: HeadValue | None) -> Iterator[Path]:
    """An empty folder for Spark's checkpoint of a life that is about to be born.

    If it is not, or nobody knows whether it is, the folder stays with its lock, which nobody holds then. The next such
    start sweeps it away unless head has that life.
    """
    folder = log.folder(incarnation)
    held = [lock.parent for lock in folder.parent.glob(f"*/{LOCK}")]
    sweep(each for each in held if head is None or each.name != head.incarnation)
    with locked(folder):
        yield folder
    (folder / LOCK).unlink()


def _witnesses(savepoint: Path, manifest: Manifest, at: HeadValue) -> dict[str, Mapping[str, str]]:
    """By source, of its last records that the savepoint has read. A query that begins at batch 0 has no others."""
    log = (savepoint / manifests.SPARK / "offsets" / str(manifest.checkpoint_id)).read_text()
    names = manifest.plan.sources if manifest.plan is not None else tuple(at.positions)
    return {name: offset.witnesses for name, offset in planned(log, names).items()}


def check_readable(sources: Sequence[Source], seed: Seed, witnesses: Mapping[str, Mapping[str, str]]) -> None:
    """Asks each source once, and blocks for as long as that takes. `witnesses`: by source, to be compared.

    Raises SavepointError for a split whose next records are gone, unless the spec says that they may be left out; or
    that ends before them. What `Source.horizon` raises, as for a topic that was made again, and what
    `Source.check_witnesses` raises.
    """
    for source in sources:
        begins = seed.begins[source.name]
        positions = {**begins.positions, **seed.positions.get(source.name, {})}
        there = source.horizon(StartingPoint({}, begins.identities))
        first, ends = there.discovered.positions, there.ends
        known = {split: at for split, at in positions.items() if split in ends}
        gone = [OffsetRange(split, at, first[split]) for split, at in known.items() if is_before(at, first[split])]
        left_out = {each.split for each in source.lost_ranges(gone)}
        unreadable = [each.split for each in gone if each.split not in left_out]
        unreadable += [split for split, at in known.items() if is_before(ends[split], at)]
        if unreadable:
            said = ", ".join(
                f"{split} at {known[split]}, and has [{first[split]}, {ends[split]})" for split in unreadable
            )
            message = f"source {source.name} goes on in {said}"
            remedy = "the records in between are gone: begin from a newer savepoint, or without one by `eos reset --to`"
            raise SavepointError(message, remedy=remedy)
        told = witnesses.get(source.name, {})
        source.check_witnesses({split: each for split, each in told.items() if split in ends})
