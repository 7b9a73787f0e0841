"""Deletes from Spark's checkpoint what Spark must not read: files that a power cut truncated, and a plan that overran.

Spark syncs neither `offsets/N` nor `commits/N`: one may be there by its name alone, and Spark starts on none that it
cannot read. What nothing decided rests on is deleted, as if the power cut had taken all of it: a plan that is not
decided is made anew, and a batch that is not known to be done is run again (R4).
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from eos.errors import IdentityError
from spark_jobs.observe.history.model import Event
from spark_jobs.observe.report import Listener
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.query.truncated_files import commit_is_cut, drop, identity_is_cut, newest_whole, numbers, plan_is_cut
from twophase.driver import Driver
from twophase.head_value import HeadValue
from twophase.retry import retrying
from twophase.verify import WITHOUT_SPARK

_log: Final = logging.getLogger("eos.runner")

_PATIENCE_S: Final = 20.0
_POLL_S: Final = 0.05


def mend(driver: Driver, log: LocalSparkLog, listener: Listener, overran: int | None = None) -> None:
    """Called once the driver has started, so that nothing undecided is prepared any more (R3).

    `overran`: the checkpoint whose tasks took too long, and which is replanned with fewer records.

    Two drivers may call it, and the older one must not delete what the newer one's Spark runs or has written. So head
    is read under a lock, and each driver takes this lock before its Spark begins: a newer driver waits until the older
    one has ended its deletions (H25). Nothing in the folder shows that a plan overran, so a driver that finds nothing
    to delete waits as well.

    Raises IdentityError for what a decision rests on, and deletes nothing then; FencedError, HeadError.
    """
    head = driver.owned
    folder = log.folder(head.incarnation)
    if not folder.exists():
        return  # no query has begun
    with _alone(folder):
        if not _cut(folder, head, overran):
            return
        driver.check_owned()
        for path, why in _doomed(folder, head, overran):
            if path.parent.name == "offsets":
                log.forget_plan(head.incarnation, int(path.name))
            else:
                drop(path.parent, path.name)
            message = f"deleted {path}: {why}"
            _log.warning("%s", message)
            listener.on_event(Event(time.time(), "mended", message, checkpoint_id=head.completed + 1))


def _cut(folder: Path, head: HeadValue, overran: int | None) -> list[tuple[Path, str]]:
    """Return files that Spark must not read, each with the reason, in the order of their deletion."""
    found = []
    if plan_is_cut(plan := folder / "offsets" / str(head.completed + 1)):
        found.append((plan, "a power cut has left it cut off; batch and checkpoint are not decided, and planned anew"))
    elif overran == head.completed + 1 and plan.exists():
        found.append((plan, "its tasks took too long; nothing of it is decided, and it is replanned"))
    commits = folder / "commits"
    for number in reversed(numbers(commits)):
        if not commit_is_cut(commits / str(number)):
            break
        found.append((commits / str(number), "a power cut has truncated it; decided rows are not rewritten"))
    if head.query_id is None and identity_is_cut(folder / "metadata"):
        found.append((folder / "metadata", "a power cut has left it cut off; the query has completed nothing"))
    return found


def _doomed(folder: Path, head: HeadValue, overran: int | None) -> list[tuple[Path, str]]:
    """`_cut`, and before it a plan upon state that only a commit that is cut off could tell."""
    cut, last, commits = _cut(folder, head, overran), head.completed, folder / "commits"
    lost = [path for path, _ in cut if path.parent == commits]
    if not lost or next(folder.glob("state/*/_metadata"), None) is None:
        return cut
    if newest_whole(commits) < last - 1:
        message = f"{lost[-1]} is empty or cut off: only it says which state checkpoint {last} has begun with"
        raise IdentityError(message, remedy=WITHOUT_SPARK)
    plan = folder / "offsets" / str(last + 1)
    if not plan.exists() or plan in dict(cut):
        return cut
    return [(plan, f"Spark has to run batch {last} again first, for its state, and runs the newest plan"), *cut]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Raises IdentityError where another process, perhaps a frozen one, does not let go; its end does that as well."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        policy = retrying(BlockingIOError, deadline_s=_PATIENCE_S, wait_s=_POLL_S)
        try:
            policy(fcntl.flock, descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another driver repairs Spark's checkpoint in {folder}, and does not end"
            raise IdentityError(message, remedy="end that process") from None
        yield
    finally:
        os.close(descriptor)
