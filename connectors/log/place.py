"""The place of a sink's log, a folder or a prefix in a bucket: its slots, and the checks of `eos doctor`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from connectors.api.contracts import Finding
from connectors.log.segments import open_log, slots_of
from eos.errors import TargetError
from twophase.values import Committable
from wal.address import ObjectAddress
from wal.errors import ObjectExistsError, ObjectMissingError, WalError
from wal.filesystem import refuse_network_filesystem
from wal.storage import Storage

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")  # of Linux: another one on each machine
_CHECK: Final = "log store"


@dataclass(frozen=True, slots=True)
class Sight:
    """A folder of one machine, told from one of the same name on another, or in another container."""

    place: Path
    machine: str
    identity: tuple[int, int]

    @classmethod
    def of(cls, place: Path) -> Sight:
        """What there is now."""
        found = place.stat()
        return cls(place, _BOOT.read_text() if _BOOT.exists() else "", (found.st_dev, found.st_ino))

    def is_here(self) -> bool:
        """Whether this process sees the same."""
        return self.place.exists() and Sight.of(self.place) == self


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Picklable. It may be shared by sinks and pipelines; a folder is made when it is first written to."""

    at: Path | ObjectAddress
    slots: int = 1  # that share the rows of a checkpoint and are applied at once
    seen: Sight | None = None  # by the driver: which disk of which machine it is; None: nobody has looked yet

    def open(self) -> Storage:
        """The storage. Raises TargetError for a network filesystem, and where this is not what the driver has seen.

        Called in tasks: a segment on another machine's disk would be decided, and never be found. A bucket is the same
        one from everywhere, by its address alone.
        """
        if self.seen is not None and not self.seen.is_here():
            message = f"rows would wait at {self.at}, which on this machine is not what the driver sees there"
            remedy = "run tasks on the driver's machine (a local master), keep the log in an object store "
            remedy += "(`checkpoint.log`), or commit by two-phase where the database can"
            raise TargetError(message, remedy=remedy)
        return open_log(self.at)

    def slots_for(self, replaces: Committable | None) -> int:
        """Into how many the rows are divided: what is written again belongs to the slots that it was decided for."""
        return (slots_of([replaces]) if replaces is not None else None) or self.slots

    def on_driver(self) -> LogPlace:
        """The same, as the driver sees it now: to be sent to tasks."""
        return self if isinstance(self.at, ObjectAddress) else replace(self, seen=Sight.of(_existing(self.at)))

    def check(self, of: str = "") -> Sequence[Finding]:
        """What `eos doctor` says of it. Writes nothing but a probe into a bucket, and deletes it again.

        `of`: stands before the name of each check.
        """
        at = self.at
        found = probe(at) if isinstance(at, ObjectAddress) else [_location(at), _writable(at)]
        return [replace(finding, check=of + finding.check) for finding in found]


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(place for place in (folder, *folder.parents) if place.exists())


def _location(folder: Path) -> Finding:
    try:
        refuse_network_filesystem(folder)
    except WalError as error:
        return Finding("log location", ok=False, detail=error.message, remedy=error.remedy)
    return Finding("log location", ok=True, detail=f"{folder} is on a local disk")


def _writable(folder: Path) -> Finding:
    place = _existing(folder)
    ok = place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    state = "is there" if place == folder else f"will be made in {place}"
    remedy = "" if ok else f"let this user write to {place}"
    return Finding("log folder", ok, f"{folder} {state}" if ok else f"{place} cannot be written", remedy)


def late_refusal(constraints: Sequence[str]) -> Finding:
    """What `eos doctor` says of a target that may refuse rows which are decided."""
    found = ", ".join(constraints)
    return Finding(
        "constraints",
        ok=False,
        detail=f"the table has {found}: a row that breaks one is found only when its checkpoint is applied",
        remedy="make sure that no row breaks them: the pipeline would stop there until the row in the way is gone",
        fatal=False,
    )


def probe(at: ObjectAddress) -> list[Finding]:
    """Try the requests of a log on an object of a unique name, and read the bucket's rules for old objects."""
    from connectors.buckets.lifecycle import check_rules  # load the store's client, which `eos validate` does not need
    from connectors.buckets.promises import run, try_objects, unused_name

    try:
        storage = open_log(at)
    except TargetError as error:
        return [Finding(_CHECK, ok=False, detail=error.message, remedy=error.remedy)]
    name, objects = f"{unused_name()}.probe", _LogObjects(storage)
    attempts = [(_CHECK, try_objects(objects, name, _CHECK, storage.describe()))]
    found = run(objects, [name], attempts, _CHECK, at.endpoint)
    rules = check_rules(at, _CHECK) if any(each.check == _CHECK and each.ok for each in found) else ()
    return [*found, *rules]


@dataclass(frozen=True, slots=True)
class _LogObjects:
    """The requests of a log as promises.Objects."""

    storage: Storage

    def create(self, name: str, content: bytes) -> bool:
        writer = self.storage.create(name)
        try:
            writer.write(content)
            writer.publish()
        except ObjectExistsError:
            return False
        finally:
            writer.discard()
        return True

    def read(self, name: str) -> bytes | None:
        try:
            with self.storage.open(name) as file:
                return file.read()
        except ObjectMissingError:
            return None

    def is_listed(self, name: str) -> bool:
        return name in self.storage.names()

    def delete(self, name: str) -> None:
        self.storage.delete(name)
