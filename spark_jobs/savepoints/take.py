"""Takes a savepoint, in a folder or in a store: of a stopped pipeline, or of one that runs and goes on meanwhile.

What is copied is the newest checkpoint that head calls committed everywhere and Spark calls done. Every file of it is
immutable; while Spark goes on it may delete them, a hundred batches later. So they are pinned first, by hard links that
take no time, and copied from there at leisure. Where there are no hard links they are copied at once, and it is begun
again if one has gone.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from errno import ENOENT
from importlib import metadata
from pathlib import Path
from typing import Final

from connectors.registry import open_documents
from connectors.spec import Spec
from eos.errors import ConnectorError, SavepointError
from spark_jobs.observe.head_reader import read_head, read_history
from spark_jobs.observe.run_lock import running
from spark_jobs.query.rebuilt_spark_log import is_filled, spark_log
from spark_jobs.query.state_files import needed, state_ids
from spark_jobs.query.truncated_files import newest_whole
from spark_jobs.savepoints import job as jobs
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints import plan as plans
from spark_jobs.savepoints.manifest import Manifest
from spark_jobs.savepoints.place import At, Place
from spark_jobs.savepoints.places import default_place, place_at
from spark_jobs.session.locked_dirs import temporary
from twophase import faults
from twophase.codec import encode_head, encode_record
from twophase.head_value import HeadValue
from twophase.positions import Positions
from twophase.requests import Answer, Request
from twophase.status import Status
from twophase.values import CheckpointRecord

_log = logging.getLogger("eos.savepoint")

_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Point:
    """A checkpoint that can be taken."""

    head: HeadValue  # as it was when that checkpoint was the newest
    status: Status  # as it is
    spark: Path
    plan: plans.Plan | None
    is_running: bool | None  # another checkpoint may be done at any moment; None: nothing shows it, in a job

    @property
    def number(self) -> int:
        """Number of the checkpoint."""
        return self.head.completed

    @property
    def record(self) -> CheckpointRecord | None:
        """The decision of the checkpoint; None if it is not retained."""
        return next((each for each in self.status.checkpoints if each.checkpoint_id == self.number), None)


@contextmanager
def newest(spec: Spec) -> Iterator[Point]:
    """The newest checkpoint that is done everywhere, with Spark's folder for this block.

    Raises SavepointError where none exists, HeadError, IdentityError; FileNotFoundError where a driver has completed
    another one meanwhile; OSError.
    """
    status = read_history(spec) if spec.sources else jobs.read_settled(spec)
    if status is None or status.head.committed < 0:
        message = f"{spec.pipeline} has not committed a checkpoint yet: there is nothing to keep"
        raise SavepointError(message, remedy="run it until `eos status` shows one that is committed")
    head, is_running = status.head, running(spec) is not None if spec.sources else None
    if head.completed > head.committed and not is_running and spec.sources:
        message = (
            f"{spec.pipeline} is stopped, and checkpoint {head.completed} is decided and not yet committed everywhere: "
            "what of it is in the sinks would not be in the savepoint"
        )
        remedy = "`eos run --until-caught-up` brings it to its end; take one then"
        if spec.checkpoint.is_shared:
            remedy = f"where a driver runs on another machine, wait for its next checkpoint; else {remedy}"
        raise SavepointError(message, remedy=remedy)
    log = spark_log(spec) if spec.sources else jobs.job_log(spec, head)
    plan = plans.kept(open_documents(spec), head.incarnation)
    has_state = plan is None or bool(plan.operators)  # the plan is kept after the first checkpoint
    with log.reading(status, has_state=has_state or spec.has_watermark) as folder:
        number = min(head.committed, newest_whole(folder / "commits"))
        if number < 0:
            message = f"Spark's checkpoint has no batch that is done, and head has checkpoint {head.committed}"
            remedy = "where Spark's checkpoint is there, run the pipeline once until caught up"
            raise SavepointError(message, remedy=remedy)
        yield Point(_head_at(status, number), status, folder, plan, is_running)


def _head_at(status: Status, number: int) -> HeadValue:
    """Return head as it was when this checkpoint was the newest. Raises SavepointError as `positions_at`."""
    return replace(
        status.head,
        nonces=(),
        completed=number,
        committed=number,
        aborted_checkpoint=-1,
        aborted_attempt=0,
        positions=positions_at(status, number),
        records=(),
    )


def positions_at(status: Status, number: int) -> Mapping[str, Positions]:
    """Where each split goes on after a checkpoint: before what later ones have read.

    Raises SavepointError if one of those has no record any more.
    """
    later = {each.checkpoint_id for each in status.checkpoints if each.checkpoint_id > number}
    if missing := set(range(number + 1, status.head.completed + 1)) - later:
        message = f"what checkpoint {min(missing)} has read is not known any more, and checkpoint {number} is before it"
        raise SavepointError(
            message, remedy="run the pipeline until Spark has done its newest checkpoint, and try again"
        )
    positions = {source: dict(splits) for source, splits in status.head.positions.items()}
    for record in status.checkpoints:  # newest first
        if record.checkpoint_id > number:
            for source, ranges in record.ranges.items():
                positions[source].update({each.split: each.start for each in ranges})
    return positions


@dataclass(frozen=True, slots=True)
class Taken:
    """A savepoint that is there now."""

    at: At
    manifest: Manifest
    was_running: bool | None  # None: not known, in a job


def take(spec: Spec, into: At | None = None) -> Taken:
    """Write a savepoint below `into`, under a new name. Blocks while it copies; called from any thread of any process.

    Raises SavepointError where there is none to be had, or the place cannot be written; HeadError.
    """
    into = default_place(spec) if into is None else into
    place = place_at(into)
    try:
        place.prepare()
        for attempt in range(_TRIES):
            try:
                with newest(spec) as point, _pinned(spec, point) as files:
                    return _write(place, point, files)
            except FileNotFoundError as error:  # a newer checkpoint is there by now
                if attempt == _TRIES - 1 or not _may_run(spec):
                    raise _gone(spec, error) from error
                _log.info("savepoint: %s has gone meanwhile; the savepoint is repeated", error.filename)
    except OSError as error:
        message = f"{error.filename or into}: {error.strerror}"
        raise SavepointError(message, remedy="see that the folder can be written, and that there is room") from error
    raise AssertionError


def _may_run(spec: Spec) -> bool:
    """Return whether a driver may complete checkpoints meanwhile. A job of the user's own shows no run."""
    return running(spec) is not None or spec.checkpoint.is_shared or not spec.sources


@contextmanager
def _pinned(spec: Spec, point: Point) -> Iterator[Mapping[str, Path]]:
    """Spark's files of the checkpoint, by their path in its folder, which stay for this block."""
    with temporary(spec.checkpoint.folder / "pins") as place:
        pins: dict[str, Path] = {}
        more = () if spec.sources else jobs.source_files(point.spark)
        for path in (*needed(point.spark, point.number), *more):
            pins[path] = place / path
            pins[path].parent.mkdir(parents=True, exist_ok=True)
            _pin(point.spark / path, pins[path])
            if not spec.sources:
                jobs.check_linked_nowhere(point.spark, path, pins[path])
        _check_state(spec, point, pins)
        _check_plan(point, pins)
        faults.point("savepoint-pinned", point.number)
        yield pins


def _check_state(spec: Spec, point: Point, pins: Mapping[str, Path]) -> None:
    """Raise FileNotFoundError where a driver has rebuilt its folder meanwhile, without its state."""
    if not spec.checkpoint.is_scratch or point.plan is None or not point.plan.operators:
        return
    commit = f"commits/{point.number}"
    if not is_filled(point.spark) or not state_ids(pins[commit].read_text()):
        raise FileNotFoundError(ENOENT, "a driver rebuilds it", str(point.spark / commit))


def _check_plan(point: Point, pins: Mapping[str, Path]) -> None:
    """Raise SavepointError where another driver has written its own plan over the decided one (H25)."""
    record, plan = point.record, f"offsets/{point.number}"
    if record is not None and pins[plan].read_text(errors="replace") != record.offsets_log:
        message = f"Spark's {plan} is not what checkpoint {point.number} was decided with"
        raise SavepointError(message, remedy="use an older savepoint, or restore Spark's checkpoint from a backup")


def _pin(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # no hard links here
        shutil.copyfile(source, target, follow_symlinks=False)


def _write(place: Place, point: Point, files: Mapping[str, Path]) -> Taken:
    head, record = point.head, point.record
    texts = {manifests.HEAD: encode_head(head)}
    texts |= {manifests.RECORD: encode_record(record)} if record is not None else {}
    texts |= {manifests.SPEC: point.plan.spec.encode()} if point.plan is not None else {}
    with place.begin(f"savepoint-{head.incarnation[:6]}-{point.number}") as writing:
        entries = writing.write(texts, {f"{manifests.SPARK}/{path}": source for path, source in files.items()})
        manifest = Manifest(
            id=secrets.token_hex(16),
            pipeline=head.pipeline,
            incarnation=head.incarnation,
            checkpoint_id=point.number,
            decided_at=record.decided_at if record is not None else 0.0,
            taken_at=time.time(),
            later=point.status.head.completed - point.number,
            versions=_versions(),
            plan=point.plan,
            files=entries,
        )
        faults.point("savepoint-copied", point.number)
        at = writing.publish(manifests.encode(manifest))
    faults.point("savepoint-written", point.number)
    return Taken(at, manifest, point.is_running)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name, distribution in (("eos", "eos-spark"), ("spark", "pyspark")):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(distribution)
    return versions


def _gone(spec: Spec, error: OSError) -> SavepointError:
    head = read_head(spec)
    waiting = head.waiting if head is not None else 0
    behind = f"; sinks are behind by {waiting} checkpoints" if waiting > 1 else ""
    message = f"Spark no longer has {error.filename or error}{behind}"
    remedy = "let the sinks catch up, or the pipeline complete a checkpoint, and try again"
    if spec.checkpoint.is_scratch:
        remedy += "; a driver that runs elsewhere deletes older state: give the command on its machine, or stop it"
    return SavepointError(message, remedy=remedy)


class Savepoints:
    """Savepoints that a running pipeline is asked for through its requests: taken beside it, one after another.

    Belongs to one run. `reply`: told what became of a request, from a thread of this object's.
    """

    def __init__(self, spec: Spec, reply: Callable[[Request, Answer], None]) -> None:
        self._spec = spec
        self._reply = reply
        self._thread = ThreadPoolExecutor(1, "eos-savepoint")

    def begin(self, request: Request) -> None:
        """Handler of `savepoint`; does not block. The savepoint is written at the checkpoint location."""
        self._thread.submit(copy_context().run, self._taken, request).add_done_callback(
            lambda taken: self._answer(request, taken)
        )

    def close(self) -> None:
        """Blocks until what was asked for is taken and answered."""
        self._thread.shutdown()

    def _taken(self, request: Request) -> Taken:
        if "into" in request.arguments:  # the driver's user can write to places, and send state there, as others cannot
            message = "a request cannot name the place of a savepoint"
            raise SavepointError(message, remedy="`eos savepoint SPEC DIR|URL` writes to another place")
        return take(self._spec)

    def _answer(self, request: Request, future: Future[Taken]) -> None:
        """Also where it ended by what nobody foresaw: who asked would wait for ever."""
        match future.exception():
            case None:
                taken = future.result()
                number = taken.manifest.checkpoint_id
                facts = {"folder": str(taken.at), "id": taken.manifest.id, "checkpoint_id": number}
                self._reply(request, Answer(ok=True, message=f"savepoint of checkpoint {number}", facts=facts))
            case ConnectorError() as error:
                self._reply(request, Answer.refused(error))
            case unforeseen:
                _log.error("the savepoint that %s asked for failed", request.asked_by, exc_info=unforeseen)
                message = f"taking it failed: {unforeseen!r}"
                facts = {"remedy": "the log of the run says more; the pipeline goes on"}
                self._reply(request, Answer(ok=False, message=message, facts=facts))
