"""All that is compared, in the order of tables and charts."""

from __future__ import annotations

from benchmarks.bench.comparison import ours, peers, raw_limit, spark_jdbc
from benchmarks.bench.comparison.work import System


def systems() -> dict[str, System]:
    """By name."""
    groups = (raw_limit.systems(), ours.systems(), peers.systems(), spark_jdbc.systems())
    return {system.name: system for group in groups for system in group}


def without() -> set[str]:
    """The names of those that cannot be had here. Raises ServiceError if the peers' folder is named and not there."""
    return {system.name for system in peers.systems()} if peers.folder() is None else set()
