"""Every error of this package.

WalError
├── StorageError                  the place for the bytes cannot be used now (full, unreadable, read-only)
│   ├── ObjectExistsError         the name is taken: nothing is ever overwritten
│   ├── ObjectMissingError        no object of this name, or what was begun under it has been swept away
│   └── StorageRefusedError       it will not: credentials, rights, no such bucket, too large
├── ObjectNameError               the name is not one that every storage can hold
├── ObjectAddressError            the URL of an object store is wrong
│   └── ObjectOptionsError        or what is said beside it
├── NetworkFilesystemError        the location is on a network filesystem, whose links and syncs promise too little
└── SegmentError                  one segment; the message names it
    ├── SegmentMissingError       it does not exist
    ├── SegmentDamagedError       its bytes are not those that were sealed
    └── SegmentFormatError        a newer version has written it

`retriable` says whether the same call may succeed later with nothing repaired but the storage.
"""

from __future__ import annotations

from eos.errors import EosError

__all__ = [
    "NetworkFilesystemError",
    "ObjectAddressError",
    "ObjectExistsError",
    "ObjectMissingError",
    "ObjectNameError",
    "ObjectOptionsError",
    "SegmentDamagedError",
    "SegmentError",
    "SegmentFormatError",
    "SegmentMissingError",
    "StorageError",
    "StorageRefusedError",
    "WalError",
]


class WalError(EosError):
    """Root of the tree."""

    code = "EOS-STORAGE"


class StorageError(WalError):
    """The storage did not do what was asked. Nothing was made visible under a name, unless the message says so."""

    retriable = True


class ObjectExistsError(StorageError):
    """An object of this name exists. It was not touched."""

    retriable = False


class ObjectMissingError(StorageError):
    """There is no such object, or its unfinished bytes were swept away before they were published."""

    retriable = False


class StorageRefusedError(StorageError):
    """The storage answers, and refuses: it will until somebody changes its settings, ours, or what is asked."""

    retriable = False


class ObjectAddressError(WalError):
    """This is not where an object store can be, or not how it is said here. No secret is in the message."""


class ObjectOptionsError(ObjectAddressError):
    """The URL is right, and its options are not."""


class ObjectNameError(WalError):
    """The name could leave the folder, or is not one that every kind of storage can hold."""


class NetworkFilesystemError(WalError):
    """The location is on a network filesystem (H21)."""


class SegmentError(WalError):
    """Something is wrong with one segment."""


class SegmentMissingError(SegmentError):
    """The segment does not exist."""


class SegmentDamagedError(SegmentError):
    """The segment's bytes are not the ones that were sealed. No row of it was given out."""


class SegmentFormatError(SegmentError):
    """The segment is of a format that this version does not read."""
