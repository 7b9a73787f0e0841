"""This project alone, warm: a pipeline that has moved as many records before. No peer's process can be had so."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

from benchmarks.bench.cases import Pipeline
from benchmarks.bench.comparison import ours
from benchmarks.bench.comparison.cold import TELLING_S
from benchmarks.bench.comparison.meter import Meter, Servers
from benchmarks.bench.comparison.results import Measured
from benchmarks.bench.comparison.work import RECORDS_AT_ONCE, TABLE, System, table_statement
from benchmarks.bench.targets import Place, Target, count, execute


def measure(system: System, places: Callable[[], Place], rows: int, servers: Servers) -> Measured:
    """From when it may read new records, which are all there, to the last one visible: in one checkpoint, as a spec has
    it that says nothing; and in several, from the first one visible. Raises RuntimeError."""
    if system.warm is None:
        raise ValueError(f"{system.name} has no warm case")
    mode = {"mode": system.warm.mode}
    whole = Pipeline((partial(_target, system),), checkpoint=mode)
    parts = Pipeline(whole.makes, checkpoint={**mode, "max_records_per_checkpoint": RECORDS_AT_ONCE})
    begun_at = time.time()
    with Meter(servers, os.getpid()) as meter:  # the pipeline's processes are children of this one
        values = {"rows_per_s_warm": rows / whole.run(places(), rows).seconds}
        after_first = parts.run(places(), rows).after_first
    disturbed = meter.used(begun_at, time.time()).disturbed
    if after_first is not None and after_first.seconds > TELLING_S:
        values["rows_per_s_warm_first_to_all_visible"] = after_first.rows / after_first.seconds
    return Measured(values, disturbed)


def _target(system: System, place: Place) -> Target:
    if system.warm is None:
        raise ValueError(f"{system.name} has no warm case")
    url = place.mysql()
    execute(url, table_statement(keyed=system.keyed))
    return Target(ours.entry(url, system.warm.commit), partial(count, url, TABLE))
