"""The contract of storages, on a folder and on an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.object_store import Bucket
from tests.storage_suite import StorageSuite, TreeSuite
from wal.local import LocalStorage
from wal.object import ObjectStorage
from wal.storage import Storage, TreeStorage


class TestStorage(StorageSuite):
    """In a folder."""

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(tmp_path)


class TestTree(TreeSuite):
    """In an object store."""

    @pytest.fixture
    def storage(self, bucket: Bucket) -> TreeStorage:
        return ObjectStorage(bucket.address())
