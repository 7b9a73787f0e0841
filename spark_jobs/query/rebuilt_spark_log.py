"""Spark's checkpoint folder where it does not outlive its driver: each start rebuilds it from head (R2).

With a location in an object store the folder is on the driver's machine, and each process has one. A pipeline without
state needs two things of it, and both are in head: the plan of the newest completed checkpoint (`offsets/N`) and the
query's id. Of a pipeline with state, or with a watermark, the rest is kept in the store (`kept_state`). An undecided
plan is lost with its driver, as a power cut destroys it. No other process writes into the folder, and so no driver can
overwrite another driver's plan (H25).

A driver that ends with nothing planned notes this beside head. Only then a sink may be removed from the spec (R2).
Otherwise the tasks of a lost plan may have prepared something in the sink (H37).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from errno import ENOENT
from functools import cache, partial
from pathlib import Path
from typing import ClassVar, Final

from connectors.registry import open_head
from connectors.spec import Spec
from eos.errors import IdentityError, SavepointError
from spark_jobs.observe.head_reader import read_newest
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.query.state_files import state_ids
from spark_jobs.query.state_keeping import StateKeeping
from spark_jobs.query.truncated_files import newest_whole
from spark_jobs.session.locked_dirs import is_abandoned, temporary
from twophase.head import BlobStore, naming_storage
from twophase.head_value import HeadValue
from twophase.local_blobs import naming
from twophase.status import Status
from twophase.values import CheckpointRecord, SparkState
from wal.address import ObjectAddress
from wal.private import replace_durably
from wal.storage import Storage
from wal.stores import open_storage

_SCRATCH: Final = "checkpoint.scratch"
_WITHOUT_STATE: Final = "without-state"
"""A file beside Spark's, for as long as the state of the query is not in this folder. It holds the note of a clean end.
"""
_COMMIT: Final = 'v1\n{"nextBatchWatermarkMs":0}'
"""`commits/N` of a batch without state and without a watermark."""


def spark_log(spec: Spec) -> LocalSparkLog:
    """Return Spark's checkpoint folders of a pipeline. Opens nothing."""
    if spec.checkpoint.is_scratch:
        states = StateKeeping(partial(_open_states, spec))
        return RebuiltSparkLog(spec.checkpoint.folder, partial(read_newest, spec), partial(_open_ends, spec), states)
    return LocalSparkLog(spec.checkpoint.folder)


@dataclass(frozen=True, slots=True)
class RebuiltSparkLog(LocalSparkLog):
    """Spark's checkpoint folders below `location`, which may be lost. Each process has a private folder there."""

    newest: Callable[[], Status | None]
    """Reads head and its two newest records. Raises HeadError."""
    ends: Callable[[], AbstractContextManager[BlobStore]]
    """Opens the shelf that names the drivers which have ended with nothing planned. Raises HeadError."""
    elsewhere: ClassVar[str] = "give a folder with another path as `checkpoint.scratch`"
    states: StateKeeping
    """Keeps Spark's state in the store, once `restore_state` was called."""

    def folder(self, incarnation: str) -> Path:
        """Return the folder of this process, and create its parent. Raises HeadError if the disk refuses that."""
        return _own_folder(self.location / "spark") / incarnation

    def state(self, incarnation: str) -> SparkState:
        """Return the state of the folder, which is rebuilt first if it lacks the newest completed checkpoint.

        A start reads it until it has claimed head, and once after that. No other driver completes anything then.
        """
        found = LocalSparkLog.state(self, incarnation)
        status = self.newest()
        if status is None or status.head.incarnation != incarnation:
            return found
        if not _fits(found, status):
            with self.ends() as ends:
                has_ended = ends.get(_end_of(status.head)) is not None
            self._rebuild(status, has_ended=has_ended)
            found = LocalSparkLog.state(self, incarnation)
        return replace(found, may_lack_plan=self._may_lack_plan(status.head))

    @contextmanager
    def reading(self, status: Status, *, has_state: bool) -> Iterator[Path]:
        """The folder of a driver that runs on this machine; else a copy, from the store or from head.

        Without state head has all that Spark needs. With state the store has two checkpoints, and the folder more.
        """
        if not has_state and not self.states.exist(status.head.incarnation):
            with self._copied(lambda folder: self._write(folder, _committed(status))) as folder:
                yield folder
        elif own := self._of_drivers(status):
            yield own[0]
        else:
            with self._copied(lambda folder: self._copy_state(status, folder)) as folder:
                yield folder

    @contextmanager
    def _copied(self, fill: Callable[[Path], None]) -> Iterator[Path]:
        """A folder for this block, beside the folders of drivers. It has another name, and no driver's files."""
        with temporary(self.location / "spark") as parent:
            folder = parent / "savepoint"
            fill(folder)
            yield folder

    def _copy_state(self, status: Status, folder: Path) -> None:
        """Raises FileNotFoundError where a driver that runs elsewhere has deleted this state meanwhile."""
        plans = _plans(status)
        try:
            with naming_storage():
                self.states.copy(status.head, folder, plans, _oldest(status))
        except IdentityError as error:
            now = self.newest()
            if now is None or now.head.completed == status.head.completed:
                raise
            raise FileNotFoundError(ENOENT, error.message, f"state/{status.head.incarnation}") from error

    @contextmanager
    def state_after(self, head: HeadValue, checkpoint_id: int) -> Iterator[Path]:
        """A copy from the store, which has the state of two checkpoints."""
        plans = _plans(self.newest())

        def fill(folder: Path) -> None:
            with naming_storage():
                self.states.copy(head, folder, plans, oldest=checkpoint_id, completed=checkpoint_id)

        with self._copied(fill) as folder:
            yield folder

    def fetch_state(self, head: HeadValue) -> None:
        self.state(head.incarnation)  # rebuilds the folder
        with naming_storage():
            has_state = self.states.exist(head.incarnation)
        if has_state:
            self.restore_state(head)

    def keep_undecided_state(self, checkpoint_id: int) -> None:
        """Send it to the store. Raises HeadError, IdentityError."""
        with naming_storage():
            self.states.keep_undecided(checkpoint_id)

    def _of_drivers(self, status: Status) -> list[Path]:
        """Folders of drivers on this machine that have the newest state, or the one before; the newest one first.

        One with a mark is being filled or rebuilt: not all of its state is there. A driver that is frozen has older
        state.
        """
        head, places = status.head, [path for path in (self.location / "spark").glob("*/") if not is_abandoned(path)]
        done = {path: newest_whole(path / "commits") for path in (each / head.incarnation for each in places)}
        newest = sorted(done, key=lambda path: done[path], reverse=True)
        return [
            path
            for path in newest
            if done[path] >= head.committed - 1 and _has_state(path, status, min(head.committed, done[path]))
        ]

    def note_end(self, head: HeadValue) -> None:
        """Note beside head that this driver ended with nothing planned, unless its newest plan is undecided."""
        if LocalSparkLog.state(self, head.incarnation).newest_planned != head.completed:
            return
        if self.is_done(head.incarnation, head.completed):
            self.await_state(head.completed)
        with self.ends() as ends:
            older = ends.names()
            ends.put(_end_of(head), b"")
            for name in older:
                if name != _end_of(head):
                    ends.delete(name)

    def _may_lack_plan(self, head: HeadValue) -> bool:
        """Whether the driver before may have planned more, and the folder was rebuilt (H37). A start looks twice."""
        mark = self.folder(head.incarnation) / _WITHOUT_STATE
        return mark.exists() and mark.read_text() != _end_of(head)

    def _rebuild(self, status: Status, *, has_ended: bool) -> None:
        """Write the files that Spark reads at its start, of the newest completed checkpoint.

        Spark also requires the plan before the newest one, and uses nothing of it for a batch that is done.
        `has_ended`: the driver that head names has ended with nothing planned.
        """
        head, folder = status.head, self.folder(status.head.incarnation)
        files = _files(head, status.checkpoints[0] if status.checkpoints else None)
        with naming(folder, _SCRATCH):
            shutil.rmtree(folder, ignore_errors=True)
            self._write(folder, {**files, _WITHOUT_STATE: _end_of(head) if has_ended else ""})

    def _write(self, folder: Path, files: Mapping[str, str]) -> None:
        for name, content in files.items():
            replace_durably(folder / name, content.encode())

    def restore_state(self, head: HeadValue) -> None:
        """Have the state in the folder, and keep it in the store from now on. Raises HeadError, IdentityError.

        Where the state after the newest checkpoint was not kept, Spark finds the state before it, and this batch as one
        that is not done.
        """
        folder = self.folder(head.incarnation)
        mark = folder / _WITHOUT_STATE
        lacks_state = mark.exists()
        status = self.newest()
        plans, oldest = _plans(status), _oldest(status)
        with naming(folder, _SCRATCH), naming_storage():
            if lacks_state:
                shutil.rmtree(folder)
                replace_durably(mark, b"")
            self.states.begin(head, folder, plans, oldest, is_filled=not lacks_state)
            if lacks_state:
                self._add_plan(head, plans.get(head.completed))
                mark.unlink()

    def finds_state(self, head: HeadValue) -> bool:
        if not (self.folder(head.incarnation) / _WITHOUT_STATE).exists():
            return True
        status = self.newest()
        with naming_storage():
            return self.states.is_kept(head, _plans(status), _oldest(status))

    def _add_plan(self, head: HeadValue, plan: str | None) -> None:
        """Add head's plan and the query's id to the kept files."""
        folder = self.folder(head.incarnation)
        if plan is not None:
            replace_durably(folder / "offsets" / str(head.completed), plan.encode())
        if head.query_id is not None:
            replace_durably(folder / "metadata", json.dumps({"id": head.query_id}).encode())

    def announce(self, incarnation: str) -> Sequence[str]:
        """Note it in the store (`tests/model/births.py`). Raises HeadError."""
        with naming_storage():
            return self.states.announce(incarnation)

    def keep_first_state(self, incarnation: str, epoch: int, checkpoint_id: int) -> None:
        """Send it to the store. Raises HeadError, IdentityError."""
        with naming_storage():
            self.states.keep_first(incarnation, epoch, self.folder(incarnation), checkpoint_id)

    def settle(self, incarnation: str, noted: Sequence[str]) -> None:
        self.states.settle(incarnation, noted)

    def keep_state(self, head: HeadValue) -> None:
        if self.is_done(head.incarnation, head.completed):
            with naming_storage():
                self.states.keep(head.completed)

    def await_state(self, checkpoint_id: int) -> None:
        with naming_storage():
            self.states.wait(checkpoint_id)

    def forget(self, incarnation: str) -> bool:
        return LocalSparkLog.forget(self, incarnation) and self.states.forget(incarnation)

    def sync_offsets(self, incarnation: str, checkpoint_id: int) -> None:
        """Sync no file, since the decision's record holds the plan."""

    def sync_query(self, incarnation: str) -> None:
        """Sync no file, since head holds the query's id."""


def _open_states(spec: Spec) -> Storage:
    at = spec.checkpoint.location_at
    assert isinstance(at, ObjectAddress)
    return open_storage(at.below("state"))


@contextmanager
def _open_ends(spec: Spec) -> Iterator[BlobStore]:
    with closing(open_head(spec)) as head:
        yield head.blobs("ended")


def _end_of(head: HeadValue) -> str:
    """Each start begins another epoch."""
    return f"{head.incarnation}-{head.epoch:08x}-{head.completed:012x}"


def _plans(status: Status | None) -> dict[int, str]:
    """Return the plans that head has decided, by checkpoint, of the records that were read."""
    return {each.checkpoint_id: each.offsets_log for each in status.checkpoints} if status is not None else {}


def _oldest(status: Status | None) -> int:
    """Return the newest completed checkpoint, if Spark cannot repeat it; else -1: the state before it will do.

    It is a rescale, or another incarnation has written its rows.
    """
    if status is None:
        return -1
    head, records = status.head, status.checkpoints
    is_rescale = bool(records) and records[0].state_partitions is not None
    is_first = head.origin is not None and head.origin.checkpoint_id == head.completed
    return head.completed if is_rescale or is_first else -1


def _files(head: HeadValue, record: CheckpointRecord | None) -> dict[str, str]:
    """Return the files of a query without state after this checkpoint; None: before the first one."""
    files: dict[str, str] = {}
    if record is not None:
        number = record.checkpoint_id
        files |= {f"offsets/{n}": record.offsets_log for n in (number - 1, number) if n >= 0}
        files[f"commits/{number}"] = _COMMIT
    if head.query_id is not None:
        files["metadata"] = json.dumps({"id": head.query_id})
    return files


def _committed(status: Status) -> dict[str, str]:
    """Return the files of a query without state after the newest checkpoint that is committed in every sink."""
    head = status.head
    record = next((each for each in status.checkpoints if each.checkpoint_id == head.committed), None)
    if record is None:
        message = f"head no longer has the record of checkpoint {head.committed}, the newest one that every sink has"
        raise SavepointError(message, remedy="let the sinks catch up, and try again")
    return _files(head, record)


def is_filled(folder: Path) -> bool:
    """Whether all that Spark needs is in a folder of a driver, with the state of its query. False: not yet."""
    return not (folder / _WITHOUT_STATE).exists()


def _has_state(folder: Path, status: Status, checkpoint_id: int) -> bool:
    """Whether the folder has the state after this checkpoint. Spark deletes none of it for a hundred batches."""
    plans = _plans(status)
    if not is_filled(folder):
        return False
    try:
        ids = state_ids((folder / "commits" / str(checkpoint_id)).read_text())
        return bool(ids) and (folder / "offsets" / str(checkpoint_id)).read_text() == plans.get(checkpoint_id)
    except FileNotFoundError:
        return False


def _fits(found: SparkState, status: Status) -> bool:
    """Whether this process or its query has written it, and no other driver has completed a checkpoint since."""
    head = status.head
    decided = all(found.offsets_log.get(each.checkpoint_id) == each.offsets_log for each in status.checkpoints[:1])
    return decided and found.query_id == head.query_id and found.newest_planned in (head.completed, head.completed + 1)


_held: Final = ExitStack()
"""Locks of this process's folders, until it ends."""


@cache
def _own_folder(parent: Path) -> Path:
    """Create this process's folder, and delete the folders of processes that have ended."""
    with naming(parent, _SCRATCH):
        return _held.enter_context(temporary(parent))
