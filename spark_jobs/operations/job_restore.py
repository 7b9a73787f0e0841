"""Restore of a job of the user's own: head begins another incarnation at a savepoint, and Spark's folder is filled.

Spark reads its checkpoint before the job's function is called. So the restore is a command, given before the job
starts. Afterwards the job starts with the new folder as its `checkpointLocation`, and continues.

The folder is filled under another name. It gets its name once head has the incarnation. Killed before that, nothing
has changed that a start of the job does not find. Killed in between, the start is refused, since Spark's checkpoint is
missing, and the same command completes the restore.
"""

from __future__ import annotations

import glob
import secrets
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from connectors.registry import build_sink
from connectors.spec import Spec
from eos.errors import IdentityError, SavepointError, SpecError
from spark_jobs.observe.head_reader import read_history
from spark_jobs.observe.history import recorder
from spark_jobs.observe.history.model import Event
from spark_jobs.operations import spark_rewriting
from spark_jobs.operations.from_savepoint import Allowed, Beginning, check_allowed, check_location
from spark_jobs.operations.repeated_records import repeated_by_job
from spark_jobs.operations.set_back_since import check_not_set_back
from spark_jobs.query.spark_log import JobSparkLog
from spark_jobs.run.open_driver import open_driver
from spark_jobs.savepoints import job as jobs
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.changes import compare
from spark_jobs.savepoints.folder import PARTIAL
from spark_jobs.savepoints.manifest import Manifest
from spark_jobs.savepoints.place import At, Whole
from spark_jobs.savepoints.places import savepoint_at
from spark_jobs.savepoints.plan import Plan, describe
from spark_jobs.session.locked_dirs import LOCK, locked, sweep
from twophase import faults
from twophase.abandoned import add_given_up
from twophase.codec import decode_head
from twophase.head_value import HeadValue
from twophase.reset import Begun
from twophase.restore import Seed, foreign_claims
from wal.durable import sync, sync_ancestors
from wal.private import make_private


def restore(spec: Spec, folder: Path, allowed: Allowed, tell: Callable[[Beginning], None]) -> Begun:
    """Have the next start of the job begin at the savepoint, with `folder` as its `checkpointLocation`.

    Called by `eos savepoint restore`, while the job does not run. A job that runs is fenced. `tell`: gets the effects
    before anything is done, also where the restore is then refused.

    Raises SavepointError, SpecError, IdentityError with nothing changed; what `Driver.restore` raises, after which it
    can be repeated; SavepointError where the folder was used meanwhile.
    """
    if spec.sources:
        message = f"{spec.pipeline} has sources, so `eos run` runs it"
        raise SpecError(message, remedy=f"`eos run SPEC --from-savepoint {allowed.at}`")
    _check_target(folder, allowed.at)
    with savepoint_at(allowed.at).opened(spec.checkpoint.folder) as savepoint:
        return _restore(spec, folder, savepoint, allowed, tell)


def _restore(spec: Spec, folder: Path, savepoint: Whole, allowed: Allowed, tell: Callable[[Beginning], None]) -> Begun:
    manifest = savepoint.manifest
    if not jobs.is_of_a_job(manifest):
        message = (
            f"{allowed.at} is a savepoint of {manifest.pipeline}, which `eos run` runs, and the spec has no sources"
        )
        raise SavepointError(message, remedy="give a savepoint of this job")
    at = decode_head((savepoint.folder / manifests.HEAD).read_bytes())
    status = read_history(spec)
    check_location(spec, status)
    head = status.head if status is not None else None
    sinks = [build_sink(spec, entry) for entry in spec.outputs]
    with open_driver(spec, sinks, _log_before(spec, head, folder), session=f"{secrets.token_hex(8)}.0") as driver:
        states = driver.inspect(head.incarnation if head is not None else at.incarnation)
        check_not_set_back(at, manifests.record(savepoint.folder, manifest), head, states)
        beginning = Beginning(
            manifest,
            compare(manifest.plan, Plan(described=describe(spec)), 0),
            repeated_by_job(at, manifest.id, status, states),
            goes_on=False,
            foreign=foreign_claims(head, states),
            forks=spec.pipeline != manifest.pipeline,
        )
        tell(beginning)
        check_allowed(spec.pipeline, beginning, allowed)
        seed = _seed(savepoint.folder, manifest, at)
        with _filled(folder, savepoint.folder, manifest, seed):
            begun = driver.restore(seed, expected=head, take_over=allowed.take_over)
            jobs.remember(spec, driver.incarnation, str(folder.absolute()))
            faults.point("job-restored", manifest.checkpoint_id)
    message = f"restored from savepoint {manifest.id}, checkpoint {manifest.checkpoint_id}"
    facts = {"id": manifest.id, "folder": str(allowed.at), "ended": begun.ended}
    recorder.tell(spec, Event(time.time(), "savepoint", add_given_up(message, begun.abandoned), facts=facts))
    return begun


def _check_target(folder: Path, savepoint: At) -> None:
    """Raise SavepointError for a folder that this restore cannot fill, or cannot give its name."""
    if folder.is_symlink():
        message = f"{folder} is a link, which cannot be replaced"
        raise SavepointError(message, remedy="give the folder that it leads to")
    if isinstance(savepoint, Path) and folder.resolve().is_relative_to(savepoint.resolve()):
        message = f"{folder} is inside the savepoint, which would hold other files then"
        raise SavepointError(message, remedy="give a folder outside of the savepoint")
    try:
        holds = next(folder.iterdir(), None)
    except FileNotFoundError:
        return
    except OSError as error:
        raise SavepointError(f"{folder} cannot be read: {error.strerror}", remedy="give an empty folder") from error
    if holds is not None:
        message = f"{folder} is not empty: it has {holds.name}"
        raise SavepointError(
            message, remedy="give a folder that is empty or does not exist; Spark's own stays as it is"
        )
    if folder.is_mount():
        message = f"{folder} is a mount point, which cannot be replaced"
        raise SavepointError(message, remedy="give a folder inside it")


def _log_before(spec: Spec, head: HeadValue | None, folder: Path) -> JobSparkLog:
    """Return Spark's folder of the incarnation that ends, which may be lost. It shows what a removed sink may hold."""
    try:
        return jobs.job_log(spec, head) if head is not None else JobSparkLog(folder)
    except (SavepointError, IdentityError):
        return JobSparkLog(folder)


def _seed(savepoint: Path, manifest: Manifest, at: HeadValue) -> Seed:
    """Return the beginning of the new incarnation. Its query has another id, so the old folder no longer fits head."""
    number = manifest.checkpoint_id
    offsets_log = (savepoint / manifests.SPARK / "offsets" / str(number)).read_text()
    return Seed(manifest.id, number, str(uuid.uuid4()), offsets_log, {}, {}, manifest.decided_at, at.schemas)


@contextmanager
def _filled(folder: Path, savepoint: Path, manifest: Manifest, seed: Seed) -> Iterator[None]:
    """Fill Spark's folder for this block under another name, and give it its name afterwards.

    Leftovers of killed restores are deleted. Raises SavepointError where the disk refuses that.
    """
    partial = folder.with_name(f"{folder.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        make_private(folder.parent)
        sweep(lock.parent for lock in folder.parent.glob(f"{glob.escape(folder.name)}.*{PARTIAL}/{LOCK}"))
        with locked(partial):
            assert seed.query_id is not None
            spark_rewriting.copy(savepoint, manifest, partial, folder, seed.query_id)
            faults.point("job-filled", manifest.checkpoint_id)
            try:
                yield
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
            if folder.exists():
                shutil.copymode(folder, partial)  # the user may have created it for the workers of a cluster
            partial.rename(folder)
        (folder / LOCK).unlink()
        sync(folder)
        sync_ancestors(folder)
    except OSError as error:
        message = f"Spark's folder cannot be written: {error.filename}: {error.strerror}"
        raise SavepointError(message, remedy="see that there is room and the folder is empty, and repeat it") from error
