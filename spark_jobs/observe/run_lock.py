"""Who runs a pipeline now: a file beside the checkpoint that is locked for as long as its process lives.

The system lets go of the lock when the process ends, however it ends, so that nobody is taken for running who is not.
It informs; what keeps two drivers apart is head (R1).
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from connectors.spec import Spec
from eos.errors import AlreadyRunningError, IdentityError
from twophase.local_blobs import naming, open_partial, sweep, write_all
from wal.private import make_private

_PRIVATE_FILE: Final = 0o600


@dataclass(frozen=True, slots=True)
class RunLock:
    """One process that runs a pipeline."""

    session: str  # of the run: Runner.run_id
    pid: int
    host: str
    started_at: float  # seconds since 1970, UTC
    page: str | None = None  # its URL


def folder_of(spec: Spec) -> Path:
    """Where presences are."""
    return spec.checkpoint.folder / "run"


@contextmanager
def present(spec: Spec, session: str, page: str | None = None) -> Iterator[RunLock]:
    """Show others that this process runs the pipeline, for this block. Raises HeadError where it cannot be written."""
    presence = RunLock(session, os.getpid(), socket.gethostname(), time.time(), page)
    with _while_it_lives(folder_of(spec), f"{session}.json", json.dumps(asdict(presence)).encode()):
        yield presence


@contextmanager
def token_kept(spec: Spec, token: str) -> Iterator[Path]:
    """Keep the token of a page in a file that this user alone may read, for this block. Raises HeadError."""
    with _while_it_lives(folder_of(spec), f"{secrets.token_hex(4)}.token", f"{token}\n".encode(), private=True) as path:
        yield path


@contextmanager
def _while_it_lives(folder: Path, name: str, content: bytes, *, private: bool = False) -> Iterator[Path]:
    """A file for this block, which is locked as long as this process lives. Those of killed processes are deleted.

    `private`: it is for this user alone, whoever may look into the folder.
    """
    path = folder / name
    with ExitStack() as held:
        with naming(folder):
            make_private(folder)
            _sweep(folder)
            partial, file = open_partial(folder)
            held.enter_context(file)  # it is locked before anybody can find it
            if private:
                os.fchmod(file.fileno(), _PRIVATE_FILE)
            write_all(file, content)
            partial.rename(path)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


@contextmanager
def alone(spec: Spec, doing: str) -> Iterator[None]:
    """Keep others on this machine from doing the same, for this block; `doing`: a word, a file name.

    A process that is frozen holds it as well. Raises IdentityError if another one does it; HeadError.
    """
    path = folder_of(spec) / f"{doing}.lock"
    with naming(path):
        make_private(path.parent)
        file = path.open("a")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another `eos {doing}` of {spec.pipeline} is under way: it holds {path}"
            raise IdentityError(message, remedy="wait for its end, or end that process") from None
        yield


def running(spec: Spec) -> RunLock | None:
    """Who runs this pipeline on this machine, the newest if there are several; None: nobody.

    A driver on another machine that has the pipeline's head in a database is not seen. Raises HeadError where presences
    cannot be read.
    """
    with naming(folder_of(spec)):
        found = [presence for path in folder_of(spec).glob("*.json") if (presence := _living(path)) is not None]
    return max(found, key=lambda each: each.started_at, default=None)


def check_stopped(spec: Spec, remedy: str = "stop it first: `eos stop`") -> None:
    """Raise AlreadyRunningError if a process on this machine runs the pipeline. Raises HeadError as `running` does."""
    if (found := running(spec)) is not None:
        since = datetime.fromtimestamp(found.started_at, UTC)
        message = f"{spec.pipeline} runs, as process {found.pid} at {found.host}, since {since:%Y-%m-%d %H:%M:%S} UTC"
        raise AlreadyRunningError(message, remedy=remedy)


def check_not_running(spec: Spec) -> None:
    """Raise AlreadyRunningError if a process on this machine runs the pipeline that `eos run` is to start.

    A courtesy: two runs that start at the same moment do not see each other, and the newer epoch fences the other (R1).
    """
    check_stopped(spec, "`eos stop` stops it; --take-over starts this one, and ends the other by fencing")


def _living(path: Path) -> RunLock | None:
    try:
        with path.open() as file:
            if _is_free(file.fileno()):
                return None
            found = json.load(file)
            return RunLock(**{name: found[name] for name in RunLock.__slots__ if name in found})  # of any version
    except FileNotFoundError:  # ended meanwhile
        return None


def _is_free(descriptor: int) -> bool:
    """Whether its process has ended."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sweep(folder: Path) -> None:
    """Forget processes that were killed."""
    sweep(folder)
    for path in (*folder.glob("*.json"), *folder.glob("*.token")):
        with suppress(FileNotFoundError, PermissionError), path.open() as file:
            if _is_free(file.fileno()):
                path.unlink()
