"""All that is compared, in the order of tables and charts."""

from __future__ import annotations

from pathlib import Path

from integration_tests.bench.comparison import ours, peers, raw_limit, spark_jdbc
from integration_tests.bench.comparison.work import System


def systems(where: Path | None) -> dict[str, System]:
    """By name. `where`: the folder of the peers, if there is one."""
    groups = (raw_limit.systems(), ours.systems(), peers.systems(where), spark_jdbc.systems())
    return {system.name: system for group in groups for system in group}
