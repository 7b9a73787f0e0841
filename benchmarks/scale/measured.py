"""One pipeline from a topic of so many partitions into a table, exactly once, and where the time of its checkpoints
went."""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bench import targets, topic
from benchmarks.bench.product import Product, spec
from benchmarks.bench.targets import Place
from benchmarks.scale.cost import Cost, cost
from integration_tests.services import Services
from spark_jobs.observe.history.model import Checkpoint
from spark_jobs.observe.history.store import History

_COLD = 2
"""Checkpoints in which Spark and its workers still load what they need."""
_PATIENCE_S = 600
_TASK_S = 0.5
"""On a busy machine, for patience."""


@dataclass(frozen=True, slots=True)
class Work:
    """What the pipeline has to do."""

    partitions: int
    records: int  # of a checkpoint
    checkpoints: int
    join_below: int = 0  # records of a partition that shares its task with others; 0: each has its own
    sink: str = "mysql"  # or postgresql

    @property
    def total(self) -> int:
        """Records."""
        return self.records * self.checkpoints


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of it."""

    writers: int  # of a checkpoint
    duration_s: float  # from one checkpoint's end to the next one's, the median of the warm ones
    phases_s: Mapping[str, float]  # medians
    cpu_s: float  # of a checkpoint: driver, JVM and local tasks; neither services nor the workers of a cluster
    logins: float  # of a checkpoint, to the sink's server
    records_per_s: float  # over all warm checkpoints
    head_bytes: int
    cost: Cost

    def facts(self) -> dict[str, Any]:
        """For a line of JSON."""
        numbers: dict[str, float] = {"writers": self.writers, "head_bytes": self.head_bytes}
        numbers |= {"records_per_s": round(self.records_per_s), "logins": round(self.logins, 1)}
        seconds = {"duration_s": round(self.duration_s, 3), "cpu_s": round(self.cpu_s, 3)}
        return {**numbers, **seconds, **self.cost.facts(), "phases_s": self.phases_s}


def measure(services: Services, work: Work, spark: Mapping[str, object]) -> Measured:
    """Run it, and count what has arrived. Raises RuntimeError if that is not each record once."""
    name = f"eos_scale_{secrets.token_hex(4)}"
    bootstrap = services.kafka_bootstrap
    with tempfile.TemporaryDirectory() as folder, Place(services, name, Path(folder), work.partitions) as place:
        target = (targets.postgresql if work.sink == "postgresql" else targets.mysql)(place, "two-phase")
        assert target.logins is not None
        topic.produce(bootstrap, name, 0, work.total, work.partitions)
        text = spec(
            bootstrap,
            name,
            "json",
            {"max_records_per_checkpoint": work.records, "retained": 1},  # so that each warm one prunes
            [target.entry],
            spark,
            {"join_below": work.join_below},
        )
        times = Path(folder) / "times.jsonl"
        timed = (sys.executable, "-m", "benchmarks.scale.timed", str(times))
        with Product(Path(folder), text, timed) as product:
            patience_s = _PATIENCE_S + _TASK_S * work.partitions * work.checkpoints
            product.wait_for(_COLD * work.records, patience_s)
            before, logins = product.cpu_s(), target.logins()
            product.wait_for(work.total, patience_s)
            cpu_s, logins = product.cpu_s() - before, target.logins() - logins
        location = Path(folder) / "checkpoint"
        found = History.at(location).checkpoints(limit=work.checkpoints + 1)
        newest = max((location / "head").glob("*.json"))
        arrived = target.arrived()
        if arrived != (work.total, work.total):
            raise RuntimeError(f"{arrived} rows and ids have arrived, of {work.total} records")
        lines = [json.loads(line) for line in times.read_text().splitlines()]
        return _measured(found[::-1], lines, cpu_s, logins, newest.stat().st_size)


def _measured(
    found: tuple[Checkpoint, ...], lines: Sequence[Mapping[str, float]], cpu_s: float, logins: int, head_bytes: int
) -> Measured:
    ends = [each.committed_at or 0.0 for each in found]
    warm = found[_COLD:]
    took_s = [after - before for before, after in pairwise(ends[_COLD - 1 :])]
    numbers, duration_s = {each.checkpoint_id for each in warm}, median(took_s)
    return Measured(
        writers=warm[-1].writers,
        duration_s=duration_s,
        phases_s=phases_s(warm),
        cpu_s=cpu_s / len(warm),
        logins=logins / len(warm),
        records_per_s=sum(each.records or 0 for each in warm) / sum(took_s),
        head_bytes=head_bytes,
        cost=cost([line for line in lines if line["checkpoint_id"] in numbers], duration_s),
    )


def phases_s(found: Sequence[Checkpoint]) -> Mapping[str, float]:
    """Return the median of each phase of a checkpoint."""
    phases = [dict(each.phases.items()) for each in found]
    return {name: round(median(each[name] or 0.0 for each in phases), 4) for name in phases[0]}
