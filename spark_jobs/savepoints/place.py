"""Interfaces of a place of savepoints and of one savepoint: in a folder of this machine, or in an object store.

Both hold the same files under the same names, so a savepoint may be copied from one to the other by any tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from spark_jobs.savepoints.manifest import Entry, Manifest
from wal.address import ObjectAddress

At = Path | ObjectAddress
"""Where a savepoint is, or where savepoints are written. The address holds the options of the client, secrets too."""


@dataclass(frozen=True, slots=True)
class Found:
    """A savepoint in a listing, or the files of one that is not finished."""

    at: At
    manifest: Manifest | None
    why: str = ""  # there is no manifest that can be read
    is_unfinished: bool = False  # it never became a savepoint


@dataclass(frozen=True, slots=True)
class Whole:
    """A savepoint of which every byte was verified, as a folder of this machine."""

    folder: Path
    manifest: Manifest


class Writing(Protocol):
    """A savepoint that is being written. It is one once its manifest is published, and not before."""

    def write(self, texts: Mapping[str, bytes], files: Mapping[str, Path]) -> Mapping[str, Entry]:
        """Write these contents, and copies of these files, by path in the savepoint. Blocks until all are durable."""

    def publish(self, manifest: bytes) -> At:
        """Write the manifest, durably. Return where the savepoint is."""


class Place(Protocol):
    """Where savepoints are written. Each call blocks. Raises SavepointError; in a folder OSError while writing."""

    def prepare(self) -> None:
        """Create the place. Delete unfinished savepoints there whose writer has ended for certain."""

    def begin(self, stem: str) -> AbstractContextManager[Writing]:
        """Begin a savepoint under a new name with this beginning. After an error its files are never used."""

    def found(self) -> list[Found]:
        """Return the savepoints of the place, newest first. Reads only their manifests. Empty: there are none yet."""


class Savepoint(Protocol):
    """One savepoint. Each call blocks. Raises SavepointError."""

    @property
    def at(self) -> At:
        """Where it is."""

    def manifest(self) -> Manifest:
        """Read the manifest."""

    def damage(self, manifest: Manifest) -> list[str]:
        """Return each file that is missing, cut short, altered, or not named. Reads every byte."""

    def content(self, path: str, manifest: Manifest) -> bytes:
        """Read one small file. Raises SavepointError also where the savepoint does not have it."""

    def opened(self, scratch: Path) -> AbstractContextManager[Whole]:
        """Yield the savepoint as a folder. `scratch`: a folder where a copy has room."""

    def dispose(self) -> Manifest:
        """Delete the savepoint and nothing else. The manifest is deleted first: the rest is not a savepoint.

        Raises SavepointError, with nothing deleted, if it is not a savepoint, or holds other files.
        """

    def discard(self) -> None:
        """Delete an unfinished savepoint, whose writer can no longer finish it.

        Raises SavepointError, with nothing deleted, if it is a savepoint, if it holds other files, and in a folder:
        there the next writer deletes unfinished ones.
        """
