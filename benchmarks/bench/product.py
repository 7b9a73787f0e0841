"""`eos run` as a user would start it, and what it took: from a cold start, and warm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import psutil

from benchmarks.bench.topic import SCHEMA
from connectors.kafka.splits import as_offset
from twophase.head import HeadStore
from twophase.local_head import LocalHead
from twophase.status import read_seen

_POLL_S = 0.05
_MEMORY_EVERY_S = 1.0  # on two cores, watching costs what is watched


def spec(
    bootstrap: str,
    topic: str,
    form: str | Mapping[str, object],
    checkpoint: Mapping[str, object],
    sinks: Sequence[Mapping[str, object]],
    spark: Mapping[str, object] = MappingProxyType({"master": "local[2]"}),
    reading: Mapping[str, object] = MappingProxyType({}),
) -> str:
    """A spec of one source and these sinks, in the part of YAML that is JSON.

    `form`: the type of its format, or the whole entry. `reading`: further options of the source.
    """
    source = {"name": "records", "connector": "kafka", "bootstrap_servers": bootstrap, "topics": [topic], **reading}
    if isinstance(form, str):
        form = {"type": form, **({"schema": SCHEMA} if form == "json" else {})}
    return json.dumps(
        {
            "pipeline": topic,  # a life of its own in each cluster and database
            "checkpoint": {"location": "./checkpoint", "interval": "0s", **checkpoint},
            "restart": {"strategy": "none"},
            "spark": dict(spark),
            "sources": [{**source, "format": form}],
            "sinks": [{"name": f"sink-{n}", "from": "records", **each} for n, each in enumerate(sinks)],
        }
    )


def visible(head: HeadStore) -> int:
    """Return the number of records that head calls committed: every sink has made them visible.

    0 while the newest checkpoint is decided and not yet committed.
    """
    seen = read_seen(head)
    if seen is None or seen.head.committed < seen.head.completed:
        return 0
    return sum(as_offset(end) for splits in seen.head.positions.values() for end in splits.values())


class Seen(NamedTuple):
    """A look at what is visible in every sink."""

    at: float  # by the clock
    records: int


@dataclass(slots=True)
class Product:
    """One `eos run` in a folder of its own. Used as a context manager: what it started, it ends."""

    folder: Path
    spec: str
    eos: Sequence[str] = (str(Path(sys.executable).parent / "eos"),)  # or what starts it in another way
    peak_rss_mb: float = 0.0  # of the largest Python process of the tree
    head: HeadStore | None = None  # in the folder by default
    also: Sequence[Path] = ()  # specs of further pipelines in the same driver
    _process: subprocess.Popen[bytes] = field(init=False)

    def __enter__(self) -> Product:
        path = self.folder / "spec.yaml"
        path.write_text(self.spec)
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*self.eos, "run", str(path), *map(str, self.also)],
                stdout=log,
                stderr=log,
                env={**os.environ, "COLUMNS": "200"},
            )
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:  # the measurement failed, perhaps while the processes were stopped
            for process in self.tree():
                process.kill()
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(120)
        except subprocess.TimeoutExpired:
            for process in self.tree():
                process.kill()
            raise

    @property
    def pid(self) -> int:
        """Of the driver."""
        return self._process.pid

    def check(self) -> None:
        """Raise RuntimeError, with its last words, if it has ended, or one of its pipelines has."""
        said = (self.folder / "log").read_text()
        if self._process.poll() is not None:
            raise RuntimeError(f"it has ended:\n{said[-2000:]}")
        if failed := [line for line in said.splitlines() if "failed for good" in line]:
            raise RuntimeError(f"{len(failed)} pipelines have failed, the first of them: {failed[0]}")

    def tree(self) -> list[psutil.Process]:
        """The driver, its JVM and the Python workers, as long as there is a driver."""
        try:
            root = psutil.Process(self._process.pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def cpu_s(self) -> float:
        """Return the CPU time of the tree so far."""
        found = 0.0
        for process in self.tree():
            with suppress(psutil.NoSuchProcess):  # a worker may have ended
                found += sum(process.cpu_times()[:2])
        return found

    def wait_for(self, records: int, timeout_s: float = 600) -> Seen:
        """Block until so many records are visible in every sink, or more. Watches memory."""
        deadline = time.time() + timeout_s
        looked_at = 0.0
        head = self.head or LocalHead(self.folder / "checkpoint")
        while (seen := visible(head)) < records:
            if self._process.poll() is not None or time.time() > deadline:
                tail = (self.folder / "log").read_text()[-2000:]
                raise RuntimeError(f"{seen} of {records} records became visible, then this:\n{tail}")
            if time.time() - looked_at > _MEMORY_EVERY_S:
                looked_at = time.time()
                self._measure_memory()
            time.sleep(_POLL_S)
        return Seen(time.time(), seen)

    def pause(self) -> None:
        """Stop every process of the run, so that records pile up without being read."""
        for process in self.tree():
            with suppress(psutil.NoSuchProcess):  # a worker may end of itself
                process.suspend()

    def resume(self) -> float:
        """Let them go on; the time at which they did."""
        at = time.time()
        for process in self.tree():
            with suppress(psutil.NoSuchProcess):
                process.resume()
        return at

    def _measure_memory(self) -> None:
        for process in self.tree():
            try:
                if "python" in process.name():
                    self.peak_rss_mb = max(self.peak_rss_mb, process.memory_info().rss / 2**20)
            except psutil.NoSuchProcess:
                continue
