"""The object store of a round: reached by the pipeline through a link, and by the round's checks directly."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from integration_tests.harness.link import Link
from tests.object_store import KEYS, Bucket
from tests.object_store import started as object_store
from twophase.head_value import HeadValue
from twophase.object_head import ObjectHead
from wal.address import ObjectAddress

_LOCATION: Final = "eos/location"
_LOG: Final = "log"  # below the location
_MANIFEST: Final = re.compile(r"/state/.*/(?P<checkpoint>[0-9]{12})\.(?P<epoch>[0-9]{8,})\.state$")


@dataclass(frozen=True, slots=True)
class Store:
    """A server, a link to it, and a bucket."""

    link: Link
    bucket: Bucket
    register: ObjectHead  # head of a pipeline with its location in the bucket
    _process: subprocess.Popen[bytes]

    @property
    def location(self) -> ObjectAddress:
        """Where a pipeline keeps its memory."""
        return self.bucket.address(_LOCATION)

    @property
    def log(self) -> ObjectAddress:
        """Where rows wait, wherever the location is."""
        return self.location.below(_LOG)

    @property
    def options(self) -> dict[str, Any]:
        """Options for a spec, of a client that uses the link."""
        return {"endpoint": f"http://127.0.0.1:{self.link.port}", "allow_http": True, "region": "us-east-1", **KEYS}

    def stop(self) -> None:
        """SIGSTOP: it keeps its connections, and processes the requests on them when it continues."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        os.kill(self._process.pid, signal.SIGCONT)

    def answers(self) -> bool:
        """Whether it answers a new connection within a second."""
        try:
            with urlopen(f"http://127.0.0.1:{self.bucket.port}/", timeout=1):
                return True
        except HTTPError:
            return True
        except (URLError, TimeoutError):
            return False

    def waiting(self) -> list[str]:
        """Return the objects of the log."""
        return [key for key in self.bucket.listed() if key.startswith(f"{_LOCATION}/{_LOG}/")]


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
def started() -> Iterator[Store]:
    """Start a server with an empty bucket, which ends with the block."""
    with object_store() as (port, process), Link("127.0.0.1", port) as link:
        bucket = Bucket(port)
        yield Store(link, bucket, ObjectHead(bucket.address(_LOCATION)), process)
