"""File systems that only Spark's JVM reads: where a job of one's own keeps Spark's checkpoint in tests."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from integration_tests.harness.hdfs import Folder
from integration_tests.services.s3a_jars import s3a_jars
from tests.object_store import KEYS, Bucket
from wal.hdfs import HdfsClient

_PREFIX = "jobs/spark"


class CheckpointFolder(Protocol):
    """Spark's checkpoint in a file system, seen without Spark."""

    @property
    def url(self) -> str:
        """Its `checkpointLocation`."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables with which a job's process reaches it."""

    def read(self, path: str) -> str:
        """Return the content of a file."""

    def put(self, path: str, content: str) -> None:
        """Write a file, also over one that exists, as a late put of another driver does."""


@dataclass(frozen=True)
class OnHdfs:
    """In a folder of the shared HDFS, whose client is in Spark's own jars."""

    folder: Folder
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return str(self.folder.address(_PREFIX))

    def read(self, path: str) -> str:
        return self._client.read(path).decode()

    def put(self, path: str, content: str) -> None:
        name = f"late-{secrets.token_hex(4)}"
        self._client.write(name, content.encode())
        self._client.rename(name, path, overwrite=True)

    @property
    def _client(self) -> HdfsClient:
        return HdfsClient(self.folder.address(_PREFIX))


@dataclass(frozen=True)
class OnS3:
    """In a bucket, by Hadoop's client of S3."""

    bucket: Bucket
    log: Path  # of the download of its jars

    @property
    def url(self) -> str:
        return f"s3a://{self.bucket.name}/{_PREFIX}"

    @property
    def environment(self) -> Mapping[str, str]:
        settings = {
            "spark.jars": ",".join(map(str, s3a_jars(self.log))),
            "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{self.bucket.port}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
            "spark.hadoop.fs.s3a.access.key": KEYS["access_key_id"],
            "spark.hadoop.fs.s3a.secret.key": KEYS["secret_access_key"],
        }
        options = [f"--conf {name}={value}" for name, value in settings.items()]
        return {"PYSPARK_SUBMIT_ARGS": " ".join([*options, "pyspark-shell"])}

    def read(self, path: str) -> str:
        return self.bucket.content(f"{_PREFIX}/{path}").decode()

    def put(self, path: str, content: str) -> None:
        self.bucket.write(f"{_PREFIX}/{path}", content.encode())
