"""Keeps Spark's state in a store beside the batches: one thread sends it while the next batch runs (`kept_state`)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Final

from eos.errors import IdentityError
from spark_jobs.query.kept_state import StateStore
from twophase.head import naming_storage
from twophase.head_value import HeadValue
from wal.errors import StorageError
from wal.storage import Storage

_log = logging.getLogger("eos.state")

_NOTES: Final = "births"
"""Folder of the notes that starts from a savepoint leave. No incarnation has so short a name."""


class StateKeeping:
    """The state of one query, from its start to its end. `begin` first; then any thread may call.

    Without `begin` nothing is kept, and `wait` returns at once: the query has no state.
    """

    def __init__(self, open_storage: Callable[[], Storage]) -> None:
        """Opens nothing."""
        self._open = open_storage
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "eos-state")
        self._begun: tuple[StateStore, Path] | None = None
        self._newest: tuple[int, Future[None] | None] = (-1, None)
        """The newest state that is kept (None), or is being kept."""

    def begin(
        self, head: HeadValue, folder: Path, plans: Mapping[int, str], oldest: int = -1, *, is_filled: bool
    ) -> None:
        """Have the newest state in the folder; nothing before the first checkpoint.

        Called once, by a driver that has claimed head. `plans`: that head has decided, by checkpoint. `oldest`: no
        older state will do. `is_filled`: this process has left its state there. Raises StorageError, IdentityError
        where the state is lost, OSError.
        """
        store = StateStore(self._open(), head.incarnation, head.epoch, plans)
        began_s = time.monotonic()
        kept = store.adopt(folder, head.completed) if is_filled else store.restore(folder, head.completed, oldest)
        if kept is not None and not is_filled:
            took_s = time.monotonic() - began_s
            _log.info(
                "state after checkpoint %d: %s bytes restored in %.1f s", kept.checkpoint_id, f"{kept.bytes:,}", took_s
            )
        self._begun, self._newest = (store, folder), (kept.checkpoint_id if kept is not None else -1, None)

    def keep(self, checkpoint_id: int) -> None:
        """Begin to keep the state after this checkpoint, unless that has begun. Spark has marked its batch as done.

        Raises as `begin` where that has failed: while there is nothing to do, nobody else would notice it.
        """
        with self._lock:
            newest, sent = self._newest
            if checkpoint_id == newest and sent is not None and sent.done():
                sent.result()
            if self._begun is None or checkpoint_id <= newest:
                return
            keep = partial(_keep, *self._begun, checkpoint_id)
            self._newest = checkpoint_id, self._thread.submit(copy_context().run, keep)

    def wait(self, checkpoint_id: int) -> None:
        """Block until the state after this checkpoint is kept. Raises as `begin`."""
        self.keep(checkpoint_id)
        sent = self._newest[1]
        if sent is not None:
            sent.result()

    def copy(
        self, head: HeadValue, folder: Path, plans: Mapping[int, str], oldest: int, completed: int | None = None
    ) -> None:
        """Fill an empty folder beside a driver. `completed`: an older checkpoint than head's. Raises as `begin`.

        A driver may delete this state meanwhile: then it has completed other checkpoints than `head`.
        """
        number = head.completed if completed is None else completed
        StateStore(self._open(), head.incarnation, head.epoch, plans).restore(folder, number, oldest)

    def announce(self, incarnation: str) -> Sequence[str]:
        """Note that a start from a savepoint prepares this incarnation. Return the notes of earlier starts.

        Called once head is read, and before any state is sent (`tests/model/births.py`). Raises StorageError.
        """
        storage = self._open()
        noted = [name.removeprefix(f"{_NOTES}/") for name in storage.names(_NOTES)]
        storage.prepare(_NOTES)
        note = storage.create(f"{_NOTES}/{incarnation}")
        try:
            note.publish()
        finally:
            note.discard()
        return noted

    def keep_first(self, incarnation: str, epoch: int, folder: Path, checkpoint_id: int) -> None:
        """Send the state of a savepoint, before head has the incarnation. `epoch`: that it begins with.

        Raises as `begin`.
        """
        _keep(StateStore(self._open(), incarnation, epoch), folder, checkpoint_id, is_decided=False)

    def keep_undecided(self, checkpoint_id: int) -> None:
        """Send the state of a rescale, which is decided after that. Blocks; raises as `begin`."""
        if self._begun is not None:
            _keep(*self._begun, checkpoint_id, is_decided=False)

    def settle(self, incarnation: str, noted: Sequence[str]) -> None:
        """Delete the state that earlier starts have left unfinished: head has this incarnation. Then delete the notes.

        A failure is a warning: the next start from a savepoint deletes the rest.
        """
        try:
            storage = self._open()
            for each in (*noted, incarnation):
                if each == incarnation or self.forget(each):
                    storage.delete(f"{_NOTES}/{each}")
        except StorageError as error:
            _log.warning("notes of starts from a savepoint stay: %s", error.message)

    def is_kept(self, head: HeadValue, plans: Mapping[int, str], oldest: int) -> bool:
        """Whether a state is kept with which head's pipeline can start. See `begin`. Raises StorageError."""
        return StateStore(self._open(), head.incarnation, head.epoch, plans).has(head.completed, oldest)

    def exist(self, incarnation: str) -> bool:
        """Whether any state of the incarnation is kept. Raises HeadError."""
        with naming_storage():
            return bool(self._open().names(incarnation))

    def forget(self, incarnation: str) -> bool:
        """Delete each state of an incarnation that has ended. False: not all of it could be deleted."""
        try:
            storage = self._open()
            for name in storage.names(incarnation):
                storage.delete(name)
        except StorageError as error:
            _log.warning("the state of incarnation %s stays: %s", incarnation, error.message)
            return False
        return True


def _keep(store: StateStore, folder: Path, checkpoint_id: int, *, is_decided: bool = True) -> None:
    began_s = time.monotonic()
    try:
        sent = store.keep(folder, checkpoint_id, is_decided=is_decided)
    except FileNotFoundError as error:
        message = f"the state after checkpoint {checkpoint_id} cannot be kept: {error.filename or error} is missing"
        raise IdentityError(message, remedy="nothing but Spark may change its folder; restart the pipeline") from error
    took_s = time.monotonic() - began_s
    _log.debug("state after checkpoint %d: %s bytes kept in %.1f s", checkpoint_id, f"{sent:,}", took_s)
