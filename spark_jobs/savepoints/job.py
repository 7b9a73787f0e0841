"""A job of the user's own, as far as a savepoint needs it: which folder is the Spark checkpoint of its query.

`eos run` chooses that folder. In a job the user chooses it, so each start of the job stores its path beside head. A
savepoint reads the path from there. No decision depends on it.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Final

from connectors.registry import open_documents
from connectors.spec import Spec
from eos.errors import SavepointError
from spark_jobs.observe.head_reader import read_history
from spark_jobs.query.spark_log import JobSparkLog, path_of
from spark_jobs.savepoints import plan as plans
from spark_jobs.savepoints.manifest import Manifest
from spark_jobs.savepoints.plan import Plan, describe
from twophase.documents import Documents
from twophase.head_value import HeadValue
from twophase.status import Status

FORMAT: Final = 1
"""Format of the stored file."""
NO_SESSION: Final = "a command has no session of Spark's, whose settings and credentials reach this file system"
"""Why a savepoint of a job is taken from, and restored to, a local disk only."""
_SOURCES: Final = "sources"
_PATIENCE_S: Final = 3.0
_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class JobCheckpoint:
    """The `checkpointLocation` of a job's query."""

    folder: str  # an absolute path, or a URL of Hadoop's
    host: str  # where the job's newest run began


def remember(spec: Spec, incarnation: str, folder: str) -> None:
    """Store where Spark's checkpoint is, and the sinks of the spec. Writes nothing if it is stored already.

    `folder`: an absolute path, or a URL.

    The path is stored last: a savepoint needs both, and is refused without a path.

    Called by a job once its start has recovered, and by a restore. Raises HeadError.
    """
    documents = open_documents(spec)
    plan = Plan(described=describe(spec), spec=spec.text)
    if plans.kept(documents, incarnation) != plan:
        plans.keep(documents, incarnation, plan)
    now = JobCheckpoint(folder, socket.gethostname())
    if find(documents, incarnation) != now:
        keep(documents, incarnation, now)


def keep(documents: Documents, incarnation: str, checkpoint: JobCheckpoint) -> None:
    """Store it. Raises HeadError."""
    documents.replace(_name(incarnation), json.dumps({"format": FORMAT, **asdict(checkpoint)}).encode())


def find(documents: Documents, incarnation: str) -> JobCheckpoint | None:
    """Return the checkpoint of the job that writes this incarnation; None if it is not known.

    Raises HeadError where it cannot be read, HeadFormatError where a newer version wrote it.
    """

    def decode(document: Mapping[str, object]) -> JobCheckpoint:
        return JobCheckpoint(str(document["folder"]), str(document["host"]))

    return plans.decoded(documents, _name(incarnation), FORMAT, decode, "the checkpoint of the job is not known")


def job_log(spec: Spec, head: HeadValue) -> JobSparkLog:
    """Return Spark's checkpoint of the job's query.

    Raises SavepointError if it is not known, lost, another one, or not on a local disk.
    """
    known = find(open_documents(spec), head.incarnation)
    if known is None:
        message = f"the job that writes {spec.pipeline} has not stored where its Spark checkpoint is"
        raise SavepointError(message, remedy="start the job once with this version of eos, and try again")
    folder = path_of(known.folder)
    if folder is None:
        message = f"Spark's checkpoint of {spec.pipeline} is at {known.folder}, and not on a local disk: {NO_SESSION}"
        remedy = "stop the job, and copy this folder together with the checkpoint location (docs/how-to/savepoints.md)"
        raise SavepointError(message, remedy=remedy)
    log = JobSparkLog(folder)
    found = log.query_id("")
    if found is None:
        message = (
            f"Spark's checkpoint of {spec.pipeline} is not at {known.folder}, where the job had it on {known.host}"
        )
        raise SavepointError(message, remedy="give the command on a machine that has this folder")
    if found != head.query_id:
        message = f"Spark's checkpoint at {known.folder} is of query {found}, and head belongs to query {head.query_id}"
        raise SavepointError(message, remedy="start the job once with the checkpoint that it had")
    return log


def read_settled(spec: Spec) -> Status | None:
    """Read head and its records, once every sink has committed the newest checkpoint, or some seconds have passed.

    Nothing shows whether a job runs. If it runs, it soon commits what it has decided. If not, or with `max_backlog`,
    the savepoint names the checkpoints that it does not hold. Raises HeadError.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while (status := read_history(spec)) is not None and status.head.waiting and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return status


def source_files(folder: Path) -> list[str]:
    """Return paths in Spark's checkpoint of the files that Spark's own sources keep, without checksum files.

    An offset of a file source is a number of its entries there, and the rate source has its first second there. An
    entry after the checkpoint names files that Spark reads next. A link is returned too, and not followed. Raises
    FileNotFoundError where Spark deletes one meanwhile.
    """
    found = [path for path in sorted((folder / _SOURCES).rglob("*")) if not path.name.startswith(".")]
    return [path.relative_to(folder).as_posix() for path in found if path.is_file() or path.is_symlink()]


def check_linked_nowhere(folder: Path, path: str, pin: Path) -> None:
    """Raise SavepointError for a file of a job's checkpoint that is a link, or is reached by one.

    Another user of the store may change the path of the folder. A link in that user's folder would lead to files that
    only this user can read, and the savepoint would have their bytes.

    Args:
        folder: the checkpoint.
        path: of the file in it.
        pin: a second name of the file, in a private folder.
    """
    if not S_ISREG(pin.lstat().st_mode) or (folder / path).parent.resolve() != (folder.resolve() / path).parent:
        message = f"{folder / path} is, or is in, a link that leads out of Spark's checkpoint"
        raise SavepointError(message, remedy="see who wrote it; let the checkpoint have folders and files only")


def is_of_a_job(manifest: Manifest) -> bool:
    """Return whether a savepoint is of a job of the user's own. A pipeline of `eos run` has sources."""
    return manifest.plan is not None and not manifest.plan.sources


def _name(incarnation: str) -> str:
    return f"jobs/{incarnation}.json"
