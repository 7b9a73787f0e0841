"""The store of a round, an object store or HDFS: reached by the pipeline through a link, and by the checks directly."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from integration_tests.harness.hdfs import Folder
from integration_tests.harness.link import Link
from integration_tests.services.hdfs_cluster import HdfsServers
from tests.object_store import KEYS, Bucket
from tests.object_store import started as object_store
from twophase.head_value import HeadValue
from twophase.object_head import ObjectHead
from wal.address import ObjectAddress

_LOCATION: Final = "eos/location"
_LOG: Final = "log"  # below the location
_MANIFEST: Final = re.compile(r"/state/.*/(?P<checkpoint>[0-9]{12})\.(?P<epoch>[0-9]{8,})\.state$")


class Store(ABC):
    """A server with an empty place for one pipeline."""

    link: Link
    options: Mapping[str, Any]
    """Options for a spec, of a client that uses the link."""

    @property
    @abstractmethod
    def location(self) -> ObjectAddress:
        """Where a pipeline keeps its memory, as its spec has it."""

    @property
    @abstractmethod
    def register(self) -> ObjectHead:
        """Head of a pipeline with its location in the store, past the link."""

    @abstractmethod
    def stop(self) -> None:
        """SIGSTOP: it keeps its connections, and processes the requests on them when it continues."""

    @abstractmethod
    def go_on(self) -> None:
        """SIGCONT."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it answers a new connection within a second."""

    @abstractmethod
    def listed(self) -> list[str]:
        """Return the names of all objects or files."""

    @property
    def log(self) -> ObjectAddress:
        """Where rows wait, wherever the location is."""
        return self.location.below(_LOG)

    def waiting(self) -> list[str]:
        """Return the objects of the log."""
        return [name for name in self.listed() if name.startswith(f"{_LOCATION}/{_LOG}/")]


@dataclass(frozen=True, slots=True)
class S3Store(Store):
    """A bucket."""

    link: Link
    bucket: Bucket
    options: Mapping[str, Any]
    _process: subprocess.Popen[bytes]

    @property
    def location(self) -> ObjectAddress:
        return self.bucket.address(_LOCATION)

    @property
    def register(self) -> ObjectHead:
        return ObjectHead(self.location)

    def stop(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def answers(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.bucket.port}/", timeout=1):
                return True
        except HTTPError:
            return True
        except (URLError, TimeoutError):
            return False

    def listed(self) -> list[str]:
        return self.bucket.listed()


@dataclass(frozen=True, slots=True)
class HdfsStore(Store):
    """A folder of HDFS. What is stopped, cut off or slow is its namenode."""

    link: Link
    folder: Folder
    options: Mapping[str, Any]
    _servers: HdfsServers

    @property
    def location(self) -> ObjectAddress:
        return Folder(self.link.port, self.folder.name).address(_LOCATION)

    @property
    def register(self) -> ObjectHead:
        return ObjectHead(self.folder.address(_LOCATION))

    def stop(self) -> None:
        self._servers.stop_namenode()

    def go_on(self) -> None:
        self._servers.resume_namenode()

    def answers(self) -> bool:
        answered = threading.Event()

        def ask() -> None:
            self.listed()
            answered.set()

        threading.Thread(target=ask, daemon=True).start()
        return answered.wait(1)

    def listed(self) -> list[str]:
        return [f"{_LOCATION}/{name}" for name in self.folder.listed(_LOCATION)]


def wrong_states(keys: Sequence[str], head: HeadValue) -> list[str]:
    """Return what is wrong with the kept state: none that a start can use, or the newest driver's needless manifests.

    Needed are those of the last two checkpoints. A needless manifest of an older driver may be among the keys: a frozen
    driver that continues can publish one after the newest driver has listed the objects. The next driver deletes it.
    """
    found = [match for key in keys if (match := _MANIFEST.search(key))]
    oldest = head.completed - 1
    needless = [each for each in found if int(each["epoch"]) == head.epoch and int(each["checkpoint"]) < oldest]
    is_kept = any(int(each["checkpoint"]) >= oldest for each in found)
    lacking = [] if is_kept else [f"the state after checkpoint {oldest} or a later one is not kept"]
    return [*lacking, *(each.string for each in needless)]


@contextmanager
def started(kind: Literal["object store", "HDFS"], folder: Path) -> Iterator[Store]:
    """Start a server with an empty place, which ends with the block. `folder`: for its data and its log."""
    if kind == "HDFS":
        with HdfsServers(folder / "hdfs", folder / "hdfs.log") as servers, Link("127.0.0.1", servers.port) as link:
            yield HdfsStore(link, Folder.of(servers.port), {}, servers)
        return
    with object_store() as (port, process), Link("127.0.0.1", port) as link:
        options = {"endpoint": f"http://127.0.0.1:{link.port}", "allow_http": True, "region": "us-east-1", **KEYS}
        yield S3Store(link, Bucket(port), options, process)
