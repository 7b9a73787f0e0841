"""Deletes what a stopped pipeline has left, when nobody is to go on with it: `eos stop --delete`."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connectors.registry import build_sink, open_requests
from connectors.spec import Spec
from eos.errors import ConnectorError
from spark_jobs.observe.head_reader import read_head, read_pause
from spark_jobs.query.rebuilt_spark_log import spark_log
from spark_jobs.run.known_sinks import KnownSinks
from spark_jobs.run.open_driver import open_driver
from twophase.abandoned import Abandoned
from twophase.local_blobs import naming
from twophase.reset import Begun

_OF_LIVES: Final = ("spark", "plans", "jobs", "sinks")
"""Folders at the checkpoint location, whose parts are named by the life that they are of."""
_LOG: Final = "log"
_FILES: Final = (
    "pins/*",
    "submit",
    "repair",
    "spark.log*",
    "spark.stderr.log*",
    "log4j2.properties",
    "admission.json",
    "columns.json",
    "listener.json",
    "withheld.json",
    "lag.json",
    "history.sqlite*",
)
"""Others. Savepoints stay, which are whole by themselves. Head stays, which is small: with the
claims in the sinks it keeps a driver that was frozen meanwhile from writing, and lets the pipeline begin anew under its
name."""


class UncommittedError(ConnectorError):
    """Something is decided and not visible everywhere: to delete what tells of it would lose rows."""

    code = "EOS-UNCOMMITTED"


@dataclass(frozen=True, slots=True)
class Deleted:
    """What is gone."""

    completed: int  # the newest checkpoint that was completed; -1: there was none
    incarnation: str  # of the life that has ended
    abandoned: tuple[Abandoned, ...]  # rows that a sink which went back in time has lost


def delete(spec: Spec) -> Deleted | None:
    """End this life of the pipeline: its checkpoints, positions, state, witnesses and segments are gone afterwards.

    What was prepared and never decided is rolled back, rows in the sinks stay. The next run begins at
    `starting_offsets`. Killed half way, it is called again. None: the pipeline never ran here.

    Called when no driver runs; one that does is fenced. Raises UncommittedError, before anything is changed, where a
    decided checkpoint is not committed everywhere, and IdentityError where another life begins meanwhile; HeadError,
    SinkUnavailableError, LostCommittableError.
    """
    head = read_head(spec)
    if head is None:
        return None
    if head.waiting:
        message = f"{spec.pipeline}: {head.waiting} checkpoints are decided and not committed in every sink"
        remedy = "commit them first: `eos run --until-caught-up`, or `eos transactions settle`"
        raise UncommittedError(message, remedy=remedy)
    sinks = [build_sink(spec, entry) for entry in spec.outputs]
    log = spark_log(spec)
    with open_driver(spec, sinks, log, session=secrets.token_hex(8)) as driver:
        reset = driver.reset(expected=head)
    if reset.ended is not None:
        log.forget(reset.ended)
        KnownSinks.of(spec).forget(reset.ended)
    with naming(spec.checkpoint.folder):
        for path in _left(spec.checkpoint.folder, reset):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    for folder in (*_OF_LIVES, _LOG, "pins"):
        with suppress(OSError):  # it is used, it is on a disk of its own, or there is none
            (spec.checkpoint.folder / folder).rmdir()
    if read_pause(spec) is not None:  # or the next start would be paused
        with open_requests(spec) as channel:
            channel.resume()
    ended = reset.before or head
    return Deleted(ended.completed, ended.incarnation, reset.abandoned)


def _left(location: Path, reset: Begun) -> Iterator[Path]:
    """What is to go. A supervisor may have started the next life already: its own stays."""
    for folder in _OF_LIVES:
        yield from (path for path in location.glob(f"{folder}/*") if not path.name.startswith(reset.head.incarnation))
    for pattern in (f"{reset.ended}*", f".{reset.ended}*"):  # others may keep theirs there
        yield from (location / _LOG).glob(pattern)
    for pattern in _FILES:
        yield from location.glob(pattern)
