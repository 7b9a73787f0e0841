"""Takes a savepoint: of a pipeline that is stopped, or of one that runs and goes on meanwhile.

What is copied is the newest checkpoint that head calls committed everywhere and Spark calls done. Every file of it is
immutable; while Spark goes on it may delete them, a hundred batches later. So they are pinned first, by hard links that
take no time, and copied from there at leisure. Where there are no hard links they are copied at once, and it is begun
again if one has gone.
"""

from __future__ import annotations

import fcntl
import logging
import os
import platform
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Final

from connectors.registry import open_head
from connectors.spec import Spec
from spark_jobs.presence import running
from spark_jobs.savepoint import manifest as manifests
from spark_jobs.savepoint import plan as plans
from spark_jobs.savepoint.manifest import Entry, Manifest
from spark_jobs.savepoint.spark_files import needed
from spark_jobs.spark_log import LocalSparkLog
from twophase import faults
from twophase.codec import encode_head, encode_record
from twophase.errors import SavepointError
from twophase.head_value import HeadValue
from twophase.status import Status, read_status

_log = logging.getLogger("eos.savepoint")

_TRIES: Final = 5
PARTIAL: Final = ".partial"
"""End of the name of a folder that is being written, or was when its writer died."""
LOCK: Final = ".lock"
"""In a folder that is being written: held by its writer, so that others know whether that one lives."""
_JUST_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Taken:
    """A savepoint that is there now."""

    folder: Path
    manifest: Manifest


def default_folder(spec: Spec) -> Path:
    """Where savepoints go without another word."""
    return spec.checkpoint.location / "savepoints"


def take(spec: Spec, into: Path | None = None) -> Taken:
    """Write a savepoint as a new folder in `into`. Blocks while it copies; called from any thread of any process.

    Raises SavepointError where there is none to be had, or the folder cannot be written; HeadError.
    """
    into = default_folder(spec) if into is None else into
    try:
        into.mkdir(parents=True, exist_ok=True)
        _sweep(into)
        for attempt in range(_TRIES):
            point = _newest(spec)
            try:
                with _pinned(spec, point) as files:
                    return _write(into, point, files)
            except FileNotFoundError as error:  # Spark has deleted it: a newer checkpoint is there by now
                if attempt == _TRIES - 1 or running(spec) is None:
                    raise _gone(point, error) from error
                _log.info("savepoint: %s has gone meanwhile, it is begun again", error.filename)
    except OSError as error:
        message = f"{error.filename or into}: {error.strerror}"
        raise SavepointError(message, remedy="see that the folder can be written, and that there is room") from error
    raise AssertionError


@dataclass(frozen=True, slots=True)
class _Point:
    """The checkpoint that is taken."""

    head: HeadValue  # as it was when that checkpoint was the newest
    status: Status  # as it is
    spark: Path
    plan: plans.Plan | None

    @property
    def number(self) -> int:
        return self.head.completed


def _newest(spec: Spec) -> _Point:
    if not spec.sources:
        message = f"{spec.pipeline} is written by a job of your own, whose Spark checkpoint is not known here"
        raise SavepointError(message, remedy="savepoints are of pipelines that `eos run` runs")
    status = _status(spec)
    if status is None or status.head.committed < 0:
        message = f"{spec.pipeline} has not committed a checkpoint yet: there is nothing to keep"
        raise SavepointError(message, remedy="run it until `eos status` shows one that is committed")
    head = status.head
    if head.completed > head.committed and running(spec) is None:
        message = (
            f"{spec.pipeline} is stopped, and checkpoint {head.completed} is decided and not yet committed everywhere: "
            "what of it is in the sinks would not be in the savepoint"
        )
        raise SavepointError(message, remedy="`eos run --until-caught-up` brings it to its end; take one then")
    log = LocalSparkLog(spec.checkpoint.location)
    number = min(head.committed, log.state(head.incarnation).newest_committed)
    if number < 0:
        message = f"{log.folder(head.incarnation)} has no batch that is done, and head has checkpoint {head.committed}"
        raise SavepointError(message, remedy="where Spark's checkpoint is there, run the pipeline once until caught up")
    at = replace(
        head,
        nonces=(),
        completed=number,
        committed=number,
        aborted_checkpoint=-1,
        aborted_attempt=0,
        positions=positions_at(status, number),
        records=(),
    )
    return _Point(at, status, log.folder(head.incarnation), plans.kept(spec.checkpoint.location, head.incarnation))


def _status(spec: Spec) -> Status | None:
    if spec.checkpoint.head is None and not (spec.checkpoint.location / "head").is_dir():
        return None  # looking must not make one
    with closing(open_head(spec)) as store:
        return read_status(store)


def positions_at(status: Status, number: int) -> Mapping[str, Mapping[str, int]]:
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


@contextmanager
def _pinned(spec: Spec, point: _Point) -> Iterator[Mapping[str, Path]]:
    """Spark's files of the checkpoint, by their path in its folder, which stay for this block."""
    place = spec.checkpoint.location / "pins" / secrets.token_hex(8)
    try:
        _sweep(place.parent)
        with locked(place):
            pins: dict[str, Path] = {}
            for path in needed(point.spark, point.number):
                pins[path] = place / path
                pins[path].parent.mkdir(parents=True, exist_ok=True)
                _pin(point.spark / path, pins[path])
            faults.point("savepoint-pinned", point.number)
            yield pins
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _pin(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # no hard links here
        shutil.copyfile(source, target)


def _write(into: Path, point: _Point, files: Mapping[str, Path]) -> Taken:
    head, unique = point.head, secrets.token_hex(3)
    folder = into / f"savepoint-{head.incarnation[:6]}-{point.number}-{unique}"
    partial = folder.with_name(folder.name + PARTIAL)
    record = next((each for each in point.status.checkpoints if each.checkpoint_id == point.number), None)
    texts = {manifests.HEAD: encode_head(head)}
    texts |= {manifests.RECORD: encode_record(record)} if record is not None else {}
    texts |= {manifests.SPEC: point.plan.spec.encode()} if point.plan is not None else {}
    with locked(partial):
        entries = {path: _store(partial / path, content) for path, content in texts.items()}
        for path, source in files.items():
            entries[f"{manifests.SPARK}/{path}"] = _copy(source, partial / manifests.SPARK / path)
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
        sync_folders(partial)
        faults.point("savepoint-copied", point.number)
        _store(partial / manifests.NAME, manifests.encode(manifest))
        sync(partial)
        (partial / LOCK).unlink()
        partial.rename(folder)
        sync(into)
    return Taken(folder, manifest)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name, distribution in (("eos", "eos-spark"), ("spark", "pyspark")):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(distribution)
    return versions


def _store(path: Path, content: bytes) -> Entry:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return Entry(*manifests.hash_of(path))


def _copy(source: Path, target: Path) -> Entry:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    sync(target)
    return Entry(*manifests.hash_of(target))


def sync_folders(folder: Path) -> None:
    """Make the names in a folder and in those below it survive a power cut; their files are synced. Raises OSError."""
    for path in (each for each in folder.rglob("*") if each.is_dir()):
        sync(path)
    sync(folder)


def sync(path: Path) -> None:
    """Make a file or folder survive a power cut. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder that nobody sweeps away while this process lives and is in this block."""
    folder.mkdir(parents=True)
    with (folder / LOCK).open("x") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sweep(folder: Path) -> None:
    """Delete what processes that were killed while they took a savepoint have left."""
    pins = sorted(folder.iterdir()) if folder.name == "pins" and folder.is_dir() else []
    for path in (*pins, *folder.glob(f"savepoint-*{PARTIAL}")):
        if is_abandoned(path):
            shutil.rmtree(path, ignore_errors=True)


def is_abandoned(folder: Path) -> bool:
    """Whether nobody writes this unfinished folder any more."""
    try:
        with (folder / LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except FileNotFoundError:  # just made, or just to be renamed; or its writer died there
        return folder.is_dir() and time.time() - folder.stat().st_mtime > _JUST_S
    return True


def _gone(point: _Point, error: OSError) -> SavepointError:
    waiting: Sequence[int] = range(point.number, point.status.head.completed)
    behind = f"; sinks are behind by {len(waiting)} checkpoints" if len(waiting) > 1 else ""
    message = f"Spark no longer has {error.filename or error} of checkpoint {point.number}{behind}"
    return SavepointError(
        message, remedy="let the sinks catch up, or the pipeline complete a checkpoint, and try again"
    )
