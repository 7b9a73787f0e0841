"""Spark's state in a storage: the files that its folder held after a checkpoint, as packs and one manifest (R6).

Spark gives each version of state a unique name and never changes it (`state_files`), so a file is sent once. New
files of a checkpoint are put together into packs. The manifest of the checkpoint says where each of its files is. It
is published last, and every object is created once, under a name that only this driver uses.

A start takes the state after head's newest checkpoint. Where that was not kept, it takes the state before it, and Spark
repeats the batch (R4): a checkpoint is decided only when the state before it is kept.

A driver lists objects only after it has published its newest manifest, and then deletes older ones (H38). It keeps each
state of that checkpoint and of the one before, by any driver, with all their packs. It never deletes the objects of a
newer driver. So a frozen driver that continues its deletions takes nothing from its successors: they begin with a state
that it has kept. `tests/model/kept_state.py` tries every order of the requests of three drivers.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from eos.errors import HeadFormatError, IdentityError, SavepointError
from spark_jobs.query.state_files import hash_of, needed, operator_at, state_ids
from spark_jobs.query.state_manifest import (
    RESTORE,
    KeptState,
    Located,
    choices,
    decode,
    encode,
    manifest_name,
    pack_name,
    unneeded,
)
from twophase import faults
from twophase.codec import sha256_of
from wal.errors import ObjectExistsError, ObjectMissingError, StorageError
from wal.storage import Storage

_log = logging.getLogger("eos.state")

_PACK_BYTES: Final = 64 * 1024 * 1024
"""A pack is closed when it has reached this size. A restore reads whole packs, several at a time."""
_AT_ONCE: Final = 4
"""Packs that are sent or read at the same time."""
_SPARSE: Final = 4
"""The needed files of a pack are sent once more when they are less than this part (1/4) of its bytes."""
_CHUNK: Final = 1024 * 1024
_OPERATOR: Final = re.compile(r"state/(?P<operator>[0-9]+)/_metadata/.*")


@dataclass(slots=True)
class StateStore:
    """The kept states of one incarnation, for one driver. Used by one thread at a time; each call blocks.

    Raises StorageError where the storage does not answer; StorageRefusedError where no repetition helps.
    """

    storage: Storage
    incarnation: str  # the folder in the storage
    epoch: int
    plans: Mapping[int, str] = field(default_factory=dict)  # that head has decided, by checkpoint
    _kept: dict[str, KeptState] = field(default_factory=dict)  # by manifest: that it restored, adopted or sent
    _others: dict[str, KeptState] = field(default_factory=dict)  # that other drivers sent: kept, and used for nothing
    _names: set[str] = field(default_factory=set)  # objects that exist, as far as this driver knows
    _is_listed: bool = False  # `_names` has the objects of other drivers, too

    def restore(self, folder: Path, completed: int, oldest: int = -1) -> KeptState | None:
        """Fill an empty folder with the newest state that is whole; None: before the first checkpoint.

        `oldest`: see `choices`. Raises IdentityError where no state is whole that head's checkpoints rest on.
        """
        lacking = "nothing is there"
        for name, kept in self._decided(completed, oldest):
            try:
                self._fill(folder, kept)
            except (ObjectMissingError, HeadFormatError) as error:
                lacking = error.message
                _log.warning("state after checkpoint %d is not whole: %s", kept.checkpoint_id, lacking)
                for path in kept.files:  # or Spark would find the mark of a batch whose state is not there
                    (folder / path).unlink(missing_ok=True)
                continue
            self._kept[name] = kept
            return kept
        lost = max(oldest, completed - 1)
        if lost < 0:
            return None
        message = f"the state after checkpoint {lost} is not at {self.storage.describe()}: {lacking}"
        raise IdentityError(message, remedy="restore the objects of the bucket, or use `eos reset`")

    def has(self, completed: int, oldest: int) -> bool:
        """Whether there is a manifest of a state that `restore` may use."""
        return next(self._decided(completed, oldest), None) is not None

    def adopt(self, folder: Path, completed: int) -> KeptState | None:
        """Compare the folder of this process, which is filled, with the newest state; None: nothing is kept."""
        for name, kept in self._decided(completed):
            same = {path: at for path, at in kept.files.items() if _is_same(folder / path, at)}
            self._kept[name] = KeptState(kept.checkpoint_id, same, kept.packs)
            return kept
        return None

    def keep(self, folder: Path, checkpoint_id: int, *, is_decided: bool = True) -> int:
        """Store the state after a checkpoint that head has completed, then delete older ones. Return bytes sent.

        Without a decision nothing is deleted: this driver may be fenced, and another one may read an older state.

        Raises IdentityError where Spark's files are not whole, FileNotFoundError where it has deleted some.
        """
        paths = _files_of(folder, checkpoint_id)
        known = self._known(paths)
        sent = self._send(folder, [path for path in paths if path not in known])
        files = known | sent
        sizes = {pack: size for each in self._kept.values() for pack, size in each.packs.items()}
        for at in sent.values():
            sizes[at.pack] = max(sizes.get(at.pack, 0), at.offset + at.bytes)
        packs = {at.pack: sizes[at.pack] for at in files.values()}
        name = manifest_name(checkpoint_id, self.epoch)
        faults.point("state-sent", checkpoint_id)
        kept = self._publish(name, KeptState(checkpoint_id, files, packs))
        faults.point("state-kept", checkpoint_id)
        self._kept[name] = kept
        if is_decided:
            self._delete_older(checkpoint_id)
        return sum(each.bytes for each in sent.values())

    def _decided(self, completed: int, oldest: int = -1) -> Iterator[tuple[str, KeptState]]:
        """The states that a start may use, best first; none of a history that head has left (it was set back)."""
        for name, kept in self._usable(completed, oldest, skips_damaged=True):
            number = kept.checkpoint_id
            plan, found = self.plans.get(number), kept.files.get(f"offsets/{number}")
            if plan is None or (found is not None and found.sha256 == sha256_of(plan.encode())):
                yield name, kept
            else:
                _log.warning("%s belongs to another plan than head has decided", self._place(name))

    def _usable(
        self, completed: int, oldest: int = -1, *, skips_damaged: bool = False
    ) -> Iterator[tuple[str, KeptState]]:
        """The states after these checkpoints, best first. Raises HeadFormatError for a damaged one."""
        for name in choices(self._list(), completed, oldest):
            try:
                kept = self._read(name)
            except ObjectMissingError:  # an older driver has deleted it since
                continue
            except HeadFormatError as error:
                if not skips_damaged:
                    raise
                _log.warning("%s", error.message)
                continue
            yield name, kept

    def _list(self) -> list[str]:
        self.storage.prepare(self.incarnation)
        start = f"{self.incarnation}/"
        return [name.removeprefix(start) for name in self.storage.names(self.incarnation)]

    def _sweep(self) -> None:
        """Delete unfinished objects of killed drivers, where the storage has them. H38: of no newer epoch."""
        start = f"{self.incarnation}/"
        unfinished = [name.removeprefix(start) for name in self.storage.unfinished(self.incarnation)]
        self.storage.sweep([start + name for name in unneeded(unfinished, {}, self.epoch)])

    def _read(self, name: str) -> KeptState:
        with self.storage.open(f"{self.incarnation}/{name}") as content:
            return decode(content.read(), self._place(name))

    def _place(self, name: str) -> str:
        return f"{self.storage.describe()}/{self.incarnation}/{name}"

    def _publish(self, name: str, kept: KeptState) -> KeptState:
        """Return the object of this name. An earlier try may have created it, and its answer was lost."""
        writer = self.storage.create(f"{self.incarnation}/{name}")
        try:
            writer.write(encode(kept))
            writer.publish()
        except ObjectExistsError:
            found, versions = self._read(name), f"commits/{kept.checkpoint_id}"
            if found.files[versions].sha256 != kept.files[versions].sha256:
                raise
            return found
        finally:
            writer.discard()
        self._names.add(name)
        return kept

    def _known(self, paths: Sequence[str]) -> dict[str, Located]:
        """Where files are already, except in packs of which little else is needed.

        Other drivers' states say nothing of this: they have other bytes under the names of a batch that both began.
        """
        known: dict[str, Located] = {}
        sizes: dict[str, int] = {}
        for kept in sorted(self._kept.values(), key=lambda each: each.checkpoint_id):
            known |= {path: kept.files[path] for path in paths if path in kept.files}
            sizes |= kept.packs
        live = dict.fromkeys(sizes, 0)
        for at in known.values():
            live[at.pack] += at.bytes
        return {path: at for path, at in known.items() if live[at.pack] * _SPARSE >= sizes[at.pack]}

    def _send(self, folder: Path, paths: Sequence[str]) -> dict[str, Located]:
        packs: list[list[str]] = [[]]
        room = _PACK_BYTES
        for path in paths:
            if room <= 0:
                packs.append([])
                room = _PACK_BYTES
            packs[-1].append(path)
            room -= (folder / path).stat().st_size
        with ThreadPoolExecutor(_AT_ONCE, "eos-state") as pool:
            sent = pool.map(lambda each: self._send_pack(folder, each), filter(None, packs))
            return {path: at for pack in sent for path, at in pack.items()}

    def _send_pack(self, folder: Path, paths: Sequence[str]) -> dict[str, Located]:
        name, offset, sent = pack_name(self.epoch), 0, {}
        writer = self.storage.create(f"{self.incarnation}/{name}")
        try:
            for path in paths:
                size, digest = 0, hashlib.sha256()
                with (folder / path).open("rb") as file:
                    while chunk := file.read(_CHUNK):
                        digest.update(chunk)
                        size += writer.write(chunk)
                sent[path] = Located(name, offset, size, digest.hexdigest())
                offset += size
            writer.publish()
        finally:
            writer.discard()
        self._names.add(name)
        return sent

    def _fill(self, folder: Path, kept: KeptState) -> None:
        """Write the files of a kept state. Raises HeadFormatError for other bytes than were kept."""
        by_pack: dict[str, list[str]] = {}
        for path, at in kept.files.items():
            by_pack.setdefault(at.pack, []).append(path)
        with ThreadPoolExecutor(_AT_ONCE, "eos-state") as pool:
            for _ in pool.map(lambda pack: self._fill_from(folder, pack, kept, by_pack[pack]), by_pack):
                pass

    def _fill_from(self, folder: Path, pack: str, kept: KeptState, paths: Sequence[str]) -> None:
        with self.storage.open(f"{self.incarnation}/{pack}") as content:
            for path in sorted(paths, key=lambda each: kept.files[each].offset):
                at = kept.files[path]
                content.seek(at.offset)
                target = folder / path
                partial = target.with_name(f".{target.name}.partial")  # a savepoint may be taken from this folder
                target.parent.mkdir(parents=True, exist_ok=True)
                if _copy(content, partial, at.bytes) != at.sha256:
                    partial.unlink()
                    message = f"{path} in {self.storage.describe()}/{self.incarnation}/{pack} has other bytes"
                    raise HeadFormatError(message, remedy=RESTORE)
                if match := _OPERATOR.fullmatch(path):  # it names Spark's folder
                    number = int(match["operator"])
                    partial.write_text(operator_at(partial.read_text(), folder / "state" / str(number), number))
                partial.replace(target)

    def _delete_older(self, checkpoint_id: int) -> None:
        """A failure is a warning: the next checkpoint, or the next driver, deletes the rest."""
        self._kept, self._others = _since(checkpoint_id - 1, self._kept), _since(checkpoint_id - 1, self._others)
        try:
            if not self._is_listed:
                self._names.update(self._list())
                self._others = {name: each for name, each in self._usable(checkpoint_id) if name not in self._kept}
                self._sweep()
                self._is_listed = True
            packs = {name: each.packs for name, each in (self._kept | self._others).items()}
            for name in unneeded(self._names, packs, self.epoch):
                self.storage.delete(f"{self.incarnation}/{name}")
                self._names.discard(name)
        except (StorageError, HeadFormatError) as error:
            _log.warning("objects of older states stay: %s", error.message)


def _since(oldest: int, states: Mapping[str, KeptState]) -> dict[str, KeptState]:
    return {name: each for name, each in states.items() if each.checkpoint_id >= oldest}


def _files_of(folder: Path, checkpoint_id: int) -> list[str]:
    """As `state_files.needed`. Raises IdentityError for state that Spark's commits log does not name."""
    try:
        paths = needed(folder, checkpoint_id)
        has_state = any((folder / "state").glob("*/0"))
        if has_state and not state_ids((folder / f"commits/{checkpoint_id}").read_text()):
            raise SavepointError("Spark's commits log does not name the versions of the state")
    except SavepointError as error:
        message = f"the state after checkpoint {checkpoint_id} cannot be kept: {error.message}"
        raise IdentityError(message, remedy="use `eos reset`, or restore the folder") from error
    return paths


def _is_same(path: Path, at: Located) -> bool:
    try:
        return hash_of(path) == (at.bytes, at.sha256)
    except FileNotFoundError:
        return False


def _copy(content: BinaryIO, target: Path, size: int) -> str:
    """Copy so many bytes to a file. Return their hash."""
    digest = hashlib.sha256()
    with target.open("wb") as file:
        while size and (chunk := content.read(min(size, _CHUNK))):
            digest.update(chunk)
            size -= file.write(chunk)
    return digest.hexdigest()
