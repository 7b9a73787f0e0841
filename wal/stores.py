"""The client for an address: of S3, Google Cloud Storage and Azure by obstore, of HDFS by hdfs-native."""

from __future__ import annotations

from wal.address import ObjectAddress
from wal.conditional_objects import ConditionalObjects
from wal.storage import TreeStorage


def open_objects(address: ObjectAddress) -> ConditionalObjects:
    """Return the small objects below an address. Sends nothing. Raises StorageRefusedError for wrong options."""
    if address.scheme == "hdfs":
        from wal.hdfs_objects import HdfsObjects

        return HdfsObjects(address)
    from wal.small_objects import SmallObjects  # loads obstore

    return SmallObjects(address)


def open_storage(address: ObjectAddress) -> TreeStorage:
    """Return the storage below an address. Sends nothing. Raises StorageRefusedError for wrong options."""
    if address.scheme == "hdfs":
        from wal.hdfs_storage import HdfsStorage

        return HdfsStorage(address)
    from wal.object import ObjectStorage  # loads obstore

    return ObjectStorage(address)


def module_of(address: ObjectAddress) -> str:
    """Return the module that `open_storage` loads, for processes that import it before their first task."""
    return "wal.hdfs_storage" if address.scheme == "hdfs" else "wal.object"
