"""The contract of storages, on a folder and on an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.object_store import Bucket
from tests.storage_suite import StorageSuite
from wal.local import LocalStorage
from wal.object import ObjectStorage
from wal.storage import Storage


class TestStorage(StorageSuite):
    """Both kinds."""

    @pytest.fixture(params=["folder", "bucket"])
    def storage(self, request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
        if request.param == "folder":
            return LocalStorage(tmp_path)
        bucket: Bucket = request.getfixturevalue("bucket")
        return ObjectStorage(bucket.address())
