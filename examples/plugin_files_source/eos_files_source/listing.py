"""The files of a source in their order, each with a digest of the listing up to it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import obstore
from obstore.store import LocalStore, from_url

from eos.errors import OffsetOutOfRangeError, SourceError

SUFFIXES: Final = (".jsonl", ".parquet")
_OF_CLIENT: Final = frozenset(
    {"allow_http", "proxy_url", "root_certificate", "connect_timeout", "timeout", "user_agent"}
)
"""Options of every store. obstore takes them apart from those of one kind of store."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of the listing."""

    name: str
    size: int
    version: str  # ETag; the time of the last change where the store has none
    etag: str | None
    digest: str  # of names, sizes and versions of this file and all before it


@dataclass(frozen=True, slots=True)
class Listing:
    """All files, ordered by name."""

    files: Sequence[File]

    def digest(self, name: str) -> str:
        """Return the digest of the files up to a name; empty before the first file."""
        at = bisect_left(self.files, name, key=lambda file: file.name)
        is_there = at < len(self.files) and self.files[at].name == name
        return self.files[at].digest if is_there else ""

    def check(self, name: str, digest: str) -> None:
        """Raise OffsetOutOfRangeError if the files up to a name are not those of the digest."""
        if self.digest(name) != digest:
            message = (
                f"the files up to {name} are not those that were planned: one was replaced, grew, is missing, or a "
                "new one has a name before it"
            )
            remedy = "put the files back as they were, and give new files names that come after all others"
            raise OffsetOutOfRangeError(message, remedy=remedy)

    def between(self, first: str, last: str) -> Iterator[File]:
        """Yield the files from one name to another, both included."""
        return (file for file in self.files if first <= file.name <= last)


def open_store(url: str, options: Sequence[tuple[str, str]]) -> Any:
    """Return the client of a folder or of an object store. Raises SourceError."""
    try:
        if "://" in url:
            config: Any = {key: value for key, value in options if key not in _OF_CLIENT}  # the keys of each store
            client: Any = {key: value for key, value in options if key in _OF_CLIENT}
            return from_url(url, config=config, client_options=client)
        if not Path(url).is_dir():
            raise SourceError(f"the folder {url} is missing", remedy="create it, or correct the source's url")
        return LocalStore(url)
    except (obstore.exceptions.BaseError, ValueError, OSError) as error:
        raise SourceError(f"{url} cannot be opened: {error}") from error


def list_files(store: Any, url: str) -> Listing:
    """Return the listing of now. Blocks. Raises SourceError if the store does not answer."""
    try:
        found = obstore.list(store).collect()
    except (obstore.exceptions.BaseError, OSError) as error:
        raise SourceError(f"{url} cannot be listed: {error}") from error
    running = blake2b(digest_size=8)
    files = []
    for meta in sorted(found, key=lambda meta: meta["path"]):
        name, size, etag = meta["path"], meta["size"], meta["e_tag"]
        if not name.endswith(SUFFIXES):
            continue
        version = etag or meta["last_modified"].isoformat()
        running.update(f"{len(name)}:{name}{size}:{len(version)}:{version}".encode())
        files.append(File(name, size, version, etag, running.copy().hexdigest()))
    return Listing(files)
