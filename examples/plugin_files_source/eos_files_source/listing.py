"""The files of a source in their order, each with a digest of the listing up to it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b
from os.path import realpath
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import obstore
from obstore.store import LocalStore, from_url

from eos.errors import OffsetOutOfRangeError, SourceAccessError, SourceError

Links: TypeAlias = Literal["inside", "refuse", "follow"]

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
            return _client(url, tuple(options))
        if not Path(url).is_dir():
            raise SourceError(f"the folder {url} is missing", remedy="create it, or correct the source's url")
        return LocalStore(url)
    except (obstore.exceptions.BaseError, ValueError, OSError) as error:
        raise SourceError(f"{url} cannot be opened: {error}") from error


@lru_cache(maxsize=8)
def _client(url: str, options: Sequence[tuple[str, str]]) -> Any:
    """Return the client of an object store. A file is read in many ranges, and a client keeps its connections."""
    config: Any = {key: value for key, value in options if key not in _OF_CLIENT}  # the keys of each store
    client: Any = {key: value for key, value in options if key in _OF_CLIENT}
    return from_url(url, config=config, client_options=client)


def list_files(store: Any, url: str, links: Links = "inside") -> Listing:
    """Return the listing of now. Blocks. Raises SourceError if the store does not answer.

    Raises SourceAccessError for a file behind a symbolic link that `links` does not allow.
    """
    try:
        found = obstore.list(store).collect()
    except (obstore.exceptions.BaseError, OSError) as error:
        raise SourceError(f"{url} cannot be listed: {error}") from error
    running = blake2b(digest_size=8)
    files, names = [], []
    for meta in sorted(found, key=lambda meta: meta["path"]):
        name, size, etag = meta["path"], meta["size"], meta["e_tag"]
        if not name.endswith(SUFFIXES):
            continue
        names.append(name)
        version = version_of(meta)
        running.update(f"{len(name)}:{name}{size}:{len(version)}:{version}".encode())
        files.append(File(name, size, version, etag, running.copy().hexdigest()))
    if isinstance(store, LocalStore) and links != "follow":
        _check_links(Path(str(store.prefix)), names, links)
    return Listing(files)


def version_of(meta: Any) -> str:
    """Return the identity of a file's content: the ETag, or the time of the last change if the store has none.

    The ETag of a file in a folder has its inode, its size and the time of its last change.
    """
    return str(meta["e_tag"] or meta["last_modified"].isoformat())


def is_version(meta: Any, version: str) -> bool:
    """Return whether a file has the content that was listed. Azure puts quotes around the ETag of a GET only."""
    return _bare(version_of(meta)) == _bare(version)


def _bare(version: str) -> str:
    return version.removeprefix("W/").strip('"')


def _check_links(root: Path, names: Sequence[str], links: Links) -> None:
    real = Path(realpath(root))

    @cache
    def folder(name: str) -> Path:
        return Path(realpath(real / name))

    for name in names:
        parent, _, base = name.rpartition("/")
        path = folder(parent) / base
        target = Path(realpath(path)) if path.is_symlink() else path
        if links == "refuse" and target != real / name:
            message = f"{root / name} is a symbolic link, or in a folder that is one"
            raise SourceAccessError(message, remedy="copy the file, or set `symlinks: inside`")
        if not target.is_relative_to(real):
            message = f"{root / name} is a symbolic link to {target}, which is outside of {root}"
            raise SourceAccessError(message, remedy="copy the file, or set `symlinks: follow`")
