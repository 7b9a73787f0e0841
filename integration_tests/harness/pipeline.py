"""A pipeline under test: its folder and spec, its topic and table, and every process that was started for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from integration_tests.harness.faults import Faults
from integration_tests.harness.oracle import PostgresTable, SinkTable, Verdict, compare
from integration_tests.harness.pipeline_process import PipelineProcess
from integration_tests.harness.workload import Workload
from twophase.codec import decode_head
from twophase.head import HeadStore
from twophase.head_value import HeadValue
from twophase.local_head import LocalHead
from twophase.object_head import ObjectHead
from twophase.status import read_status
from twophase.values import CheckpointRecord
from wal.address import ObjectAddress

TABLE = "records"
PARTITIONS = 2
CHECKPOINT_RECORDS = 500
"""Cap on the records of a checkpoint: a few thousand records make several checkpoints."""


class Pipeline:
    """One pipeline from `topic` to a table. Use as a context manager: at its end no process of it lives any more."""

    def __init__(self, folder: Path, bootstrap: str, topic: str, database: str) -> None:
        self.folder = folder
        self.workload = Workload(bootstrap, topic, PARTITIONS)
        self.table = SinkTable(database, TABLE)
        self.environment = {"SINK_URL": database}
        self.spec: dict[str, Any] = _spec(topic, bootstrap)
        self.processes: list[PipelineProcess] = []
        self.address: ObjectAddress | None = None
        self.host: str | None = None
        """Host name of the next process; None: that of this machine."""

    @property
    def register(self) -> HeadStore:
        """Where head is: at the location, or in the object store of `address`."""
        return ObjectHead(self.address) if self.address is not None else LocalHead(self.location)

    @property
    def shown(self) -> SinkTable | PostgresTable:
        """Where its rows are."""
        return self.table

    @property
    def location(self) -> Path:
        """Where the pipeline keeps its memory."""
        return self.folder / "checkpoints"

    @property
    def source(self) -> dict[str, Any]:
        """The source's entry in the spec."""
        entry: dict[str, Any] = self.spec["sources"][0]
        return entry

    @property
    def head(self) -> HeadValue:
        """Head as it is now. Only after the first start."""
        read = self.register.read()
        assert read is not None, f"there is no head at {self.register.describe()}"
        return decode_head(read.value)

    def decided(self) -> CheckpointRecord:
        """The newest completed checkpoint, as head has it. Only once there is one."""
        found = read_status(self.register)
        assert found is not None
        return found.checkpoints[0]

    def start(
        self,
        *,
        arm: Sequence[str] = (),
        until_caught_up: bool = True,
        take_over: bool = False,
        folder: Path | None = None,
    ) -> PipelineProcess:
        """Start `eos run` with these fault points armed; `folder`: where the spec is, if not in the pipeline's own.

        `take_over`: beside a driver of the pipeline that has not ended.
        """
        options = [*(["--until-caught-up"] if until_caught_up else []), *(["--take-over"] if take_over else [])]
        return self.command("run", *options, arm=arm, folder=folder)

    def command(self, name: str, *options: str, arm: Sequence[str] = (), folder: Path | None = None) -> PipelineProcess:
        """Start `eos <name>` on the spec as it is now."""
        number = len(self.processes)
        faults = Faults(self.folder / f"faults-{number}")
        for stem in arm:
            faults.arm(stem)
        folder = folder or self.folder
        log = self.folder / f"{name}-{number}.log"
        arguments = [name, str(self.write_spec(folder)), *options]
        process = PipelineProcess(arguments, folder, log, faults, self.environment, host=self.host)
        self.processes.append(process)
        return process

    def catch_up(self, *, take_over: bool = False) -> PipelineProcess:
        """Run until caught up, which must succeed. `take_over`: see `start`."""
        process = self.start(take_over=take_over)
        process.succeed()
        return process

    def write_spec(self, folder: Path | None = None) -> Path:
        """Write the spec as it is now; returns its path."""
        path = (folder or self.folder) / "pipeline.yaml"
        path.write_text(json.dumps(self.spec, indent=2))  # JSON is YAML
        return path

    def verdict(self) -> Verdict:
        """What the sink holds, against what was produced."""
        return compare(self.workload.expected, self.shown.rows())

    def prepared(self) -> list[str]:
        """What this pipeline has left prepared. Before its first start that is nothing."""
        return self.shown.prepared(self.head.incarnation) if self.was_born() else []

    def assert_exact(self, at_least: int) -> None:
        """Every record in the sink exactly once, no fewer than `at_least`, and nothing left prepared."""
        verdict = self.verdict()
        assert verdict.exact, str(verdict)
        assert verdict.in_sink >= at_least, str(verdict)
        assert self.prepared() == []

    def close(self) -> None:
        """Kill whatever still lives, and roll back what a failed test has left prepared."""
        for process in self.processes:
            process.kill()
        if self.was_born():
            self.shown.roll_back(self.head.incarnation)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def was_born(self) -> bool:
        """Whether a first start has made head."""
        return (self.address is not None or self.location.exists()) and self.register.read() is not None


def _spec(topic: str, bootstrap: str) -> dict[str, Any]:
    return {
        "pipeline": topic,
        "checkpoint": {
            "location": "./checkpoints",
            "interval": "100ms",
            "max_records_per_checkpoint": CHECKPOINT_RECORDS,
        },
        "restart": {"strategy": "fixed-delay", "attempts": 5, "delay": "100ms"},
        "spark": {"master": "local[2]"},
        "sources": [
            {
                "name": "incoming",
                "connector": "kafka",
                "bootstrap_servers": bootstrap,
                "topics": [topic],
                "join_below": 0,  # a task for each partition, however little it has: several writers
                "format": {"type": "json", "schema": "id BIGINT, word STRING, payload STRING"},
            }
        ],
        "transforms": [{"name": "rows", "sql": "SELECT id, word, payload FROM incoming"}],
        "sinks": [
            {
                "name": "warehouse",
                "connector": "mysql",
                "from": "rows",
                "url": "${env:SINK_URL}",
                "table": TABLE,
                "commit": "two-phase",
            }
        ],
    }
