"""HDFS in tests: folders of the shared cluster, and of clusters that a test may kill."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from integration_tests.harness.pipeline import Pipeline
from integration_tests.harness.stores import move
from wal.address import ObjectAddress
from wal.hdfs import HdfsClient


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of a cluster that is one test's, and a look into it."""

    port: int
    name: str

    @classmethod
    def of(cls, port: int) -> Folder:
        """Return a folder that nothing has written to."""
        return cls(port, f"t-{secrets.token_hex(5)}")

    def address(self, prefix: str = "eos/orders") -> ObjectAddress:
        """Return the address of a location in it."""
        return ObjectAddress.parse(f"hdfs://127.0.0.1:{self.port}/{self.name}/{prefix}")

    def listed(self, prefix: str = "eos/orders") -> list[str]:
        """Return the paths of all files below a prefix, also of those that are being written."""
        return sorted(_walk(HdfsClient(self.address(prefix)), ""))


def _walk(client: HdfsClient, path: str) -> list[str]:
    try:
        entries = client.list(path)
    except FileNotFoundError:
        return []
    found: list[str] = []
    for each in entries:
        name = f"{path}/{each.path.rpartition('/')[2]}".removeprefix("/")
        found += _walk(client, name) if each.isdir else [name]
    return found


def put_location(pipeline: Pipeline, folder: Folder) -> None:
    """Keep the pipeline's memory in HDFS."""
    pipeline.address = folder.address()
    pipeline.spec["checkpoint"] |= {"location": str(pipeline.address)}
    move(pipeline)
