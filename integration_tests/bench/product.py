"""`eos run` as a user would start it, and what it took: from a cold start, and warm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from integration_tests.bench.topic import SCHEMA

_POLL_S = 0.05
_MEMORY_EVERY_S = 1.0  # on two cores, watching costs what is watched

_SPEC = """\
pipeline: bench
checkpoint: {{location: ./checkpoint, interval: 0s, mode: {mode}}}
restart: {{strategy: none}}
spark: {{master: "local[2]"}}
sources:
  - name: records
    connector: kafka
    bootstrap_servers: "{bootstrap}"
    topics: [{topic}]
    format: {{type: json, schema: "{schema}"}}
sinks:
  - {{name: table, from: records, connector: mysql, url: "{url}", table: {table}, commit: {commit}}}
"""


@dataclass(slots=True)
class Product:
    """One `eos run` in a folder of its own. Used as a context manager: what it started, it ends."""

    folder: Path
    bootstrap: str
    topic: str
    url: str
    table: str
    commit: str
    mode: str = "exactly-once"
    peak_rss_mb: float = 0.0  # of the largest Python process of the tree
    _process: subprocess.Popen[bytes] = field(init=False)
    started_at: float = 0.0

    def __enter__(self) -> Product:
        spec = self.folder / "spec.yaml"
        names = ("bootstrap", "topic", "url", "table", "commit", "mode")
        spec.write_text(_SPEC.format(schema=SCHEMA, **{name: getattr(self, name) for name in names}))
        self.started_at = time.time()
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [Path(sys.executable).parent / "eos", "run", str(spec)],
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

    def tree(self) -> list[psutil.Process]:
        """The driver, its JVM and the Python workers."""
        root = psutil.Process(self._process.pid)
        return [root, *root.children(recursive=True)]

    def wait_for(self, visible: Callable[[], int], rows: int, timeout_s: float = 600) -> float:
        """Block until that many rows are visible; the time at which they were. Watches memory meanwhile."""
        deadline = time.time() + timeout_s
        looked_at = 0.0
        while visible() < rows:
            if self._process.poll() is not None or time.time() > deadline:
                tail = (self.folder / "log").read_text()[-2000:]
                raise RuntimeError(f"{visible()} of {rows} rows became visible, then this:\n{tail}")
            if time.time() - looked_at > _MEMORY_EVERY_S:
                looked_at = time.time()
                self._measure_memory()
            time.sleep(_POLL_S)
        return time.time()

    @property
    def location(self) -> Path:
        """Where the run keeps its checkpoints."""
        return self.folder / "checkpoint"

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
