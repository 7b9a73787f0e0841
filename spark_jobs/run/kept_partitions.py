"""Says that state keeps its number of partitions, where the spec names another one."""

from __future__ import annotations

import logging
from typing import Final

from connectors.spec import Spec
from spark_jobs.query.spark_log import STATE_PARTITIONS, LocalSparkLog

_log: Final = logging.getLogger("eos.runner")


def tell_kept_partitions(spec: Spec, log: LocalSparkLog, incarnation: str) -> None:
    """Called at each start of a stateful pipeline. Spark takes the spec's number for all tasks but those with state."""
    state = log.state(incarnation)
    kept, said = state.state_partitions.get(state.newest_planned), spec.spark.conf.get(STATE_PARTITIONS)
    if kept is not None and said is not None and str(kept) != str(said):
        _log.warning(
            "%s: the spec has %s: %s, and the state keeps its %d partitions: "
            "`eos rescale --state-partitions %s` divides it",
            *(spec.pipeline, STATE_PARTITIONS, said, kept, said),
        )
