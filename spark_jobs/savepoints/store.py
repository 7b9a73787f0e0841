"""Savepoints in an object store or in HDFS: one object for each file, and the manifest last.

A store has no rename, so a savepoint is written under its name. It is one with its manifest: a put that creates
the object only where none exists. Objects without a manifest are an unfinished savepoint, which nothing uses.

Rules (H42; `tests/model/savepoints.py` tries every order of the requests):

- A writer publishes its manifest only after every other object is durable.
- A lost answer to the manifest is looked up, never repeated. If the look-up fails too, the writer deletes nothing: its
  manifest may arrive later.
- No process can know whether a writer elsewhere has ended, and no clocks are compared. So a user discards an unfinished
  savepoint. First a mark takes the name of the manifest, by the same kind of put. The writer's manifest is then
  refused, and the writer reports it. The mark stays.
- A disposal deletes the manifest first.
"""

from __future__ import annotations

import io
import logging
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from eos.errors import SavepointError
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.manifest import Entry
from spark_jobs.savepoints.place import Found
from spark_jobs.savepoints.store_requests import Progress, delete, in_parallel, naming, open_at, put
from spark_jobs.savepoints.store_savepoint import DISCARDED, OWN, StoreSavepoint
from wal.address import ObjectAddress
from wal.errors import ObjectExistsError, ObjectNameError, StorageError
from wal.storage import check_name

_log: Final = logging.getLogger("eos.savepoint")

_UNFINISHED: Final = "unfinished: it has no manifest, and its writer may still be at work"
_DISCARDED: Final = "discarded: it was unfinished"


class StorePlace:
    """A part of a store with a folder for each savepoint."""

    def __init__(self, address: ObjectAddress) -> None:
        """Send nothing. Raises SavepointError for options that cannot be right."""
        self._address = address
        self._storage = open_at(address)

    def prepare(self) -> None:
        """See Place. Nothing: no process knows whether a writer has ended."""

    @contextmanager
    def begin(self, stem: str) -> Iterator[_Writing]:
        writing = _Writing(self._address.below(f"{stem}-{secrets.token_hex(8)}"))
        try:
            yield writing
        except BaseException:
            writing.give_up()
            raise

    def found(self) -> list[Found]:
        with naming():
            names = self._storage.folders()
        addresses = {name: self._address.below(name) for name in names if _is_name(name)}
        found = [each for _, of_name in in_parallel(addresses, _found) for each in of_name]
        return sorted(found, key=lambda each: each.manifest.taken_at if each.manifest else 0.0, reverse=True)


def _is_name(name: str) -> bool:
    """Whether a folder can be named by a URL."""
    with suppress(ObjectNameError):
        return bool(check_name(name))
    return False


def _found(name: str, address: ObjectAddress) -> list[Found]:
    savepoint = StoreSavepoint(address)
    try:
        content = savepoint.read_manifest()
        if content is None:
            return [Found(address, None, _UNFINISHED, is_unfinished=True)] if OWN.fullmatch(name) else []
        if content == DISCARDED:
            return [Found(address, None, _DISCARDED, is_unfinished=True)]
        return [Found(address, savepoint.decode(content))]
    except SavepointError as error:
        if isinstance(error.__cause__, StorageError):
            raise  # nothing is known of it
        return [Found(address, None, error.message)]


class _Writing:
    """A savepoint under its own name, without its manifest."""

    def __init__(self, address: ObjectAddress) -> None:
        self._address = address
        self._storage = open_at(address)
        self._begun: list[str] = []
        self._may_be_one = False  # its manifest may be in the store, now or later

    def write(self, texts: Mapping[str, bytes], files: Mapping[str, Path]) -> Mapping[str, Entry]:
        progress = Progress(f"writing {self._address}", sum(path.stat().st_size for path in files.values()))
        entries: dict[str, Entry] = {}
        sources: dict[str, bytes | Path] = {**texts, **files}
        with naming():
            for path, entry in in_parallel(sources, self._send):
                entries[path] = entry
                progress.add(entry.bytes)
        return entries

    def publish(self, manifest: bytes) -> ObjectAddress:
        """See Writing. One put. Raises SavepointError if a user has discarded the savepoint meanwhile."""
        self._may_be_one = True
        try:
            put(self._storage, manifests.NAME, io.BytesIO(manifest))
        except ObjectExistsError as error:
            self._may_be_one = False
            message = f"{self._address} was discarded while it was written"
            remedy = "write another savepoint; discard an unfinished one only if its writer has ended"
            raise SavepointError(message, remedy=remedy) from error
        except StorageError as error:
            message = f"it is not known whether {self._address} became a savepoint: {error.message}"
            raise SavepointError(message, remedy="`eos savepoint list` shows it once the store answers") from error
        return self._address

    def give_up(self) -> None:
        """Delete the objects of this writer, unless they may be a savepoint. A failure of the store is a warning."""
        if self._may_be_one:
            return
        try:
            delete(self._storage, self._begun)
        except StorageError as error:
            _log.warning("%s stays unfinished: %s", self._address, error.message)

    def _send(self, path: str, source: bytes | Path) -> Entry:
        with source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as content:
            self._begun.append(path)
            return put(self._storage, path, content)
