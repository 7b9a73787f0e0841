"""From the start of a system's first process to the last row visible: all records are there already."""

from __future__ import annotations

import time

from benchmarks.bench.comparison.expected import Expected
from benchmarks.bench.comparison.meter import Meter, Servers
from benchmarks.bench.comparison.results import Measured
from benchmarks.bench.comparison.started import RunFailedError, Started
from benchmarks.bench.comparison.table import POLL_S, Table
from benchmarks.bench.comparison.work import System, Work, table_statement

_TIMEOUT_S = 600.0
_SLOWEST_PER_S = 1000  # records, beyond this time
TELLING_S = 1.0
"""The parts of one checkpoint become visible within milliseconds of each other, which is no rate."""


def measure(system: System, work: Work, servers: Servers, expected: Expected) -> Measured:
    """Raises RunFailedError."""
    launch, statement = system.prepare(work), table_statement(keyed=system.keyed)
    with Table(work, statement, expected) as table, Started(launch, work.log) as started:
        with Meter(servers, started.pid) as meter:
            first_at, first_rows, done_at = _watch(table, started, _TIMEOUT_S + work.rows / _SLOWEST_PER_S)
        if not table.holds_all():
            raise RunFailedError(
                f"{table.count()} rows are there, {expected.rows} were expected: not each as it must be"
            )
    read_at = launch.first_read()  # some tell it at their end
    rows, begun_at = work.rows, started.started_at
    values = {
        "rows_per_s_from_start": rows / (done_at - begun_at),
        "s_start_to_first_visible": first_at - begun_at,
        "s_start_to_all_visible": done_at - begun_at,
        "rows_at_first_visible": float(first_rows),
        "peak_rss_mb": meter.peak_rss_mb,
        "connections": float(meter.connections),
    }
    if done_at - first_at > TELLING_S:
        later = 1 - first_rows / expected.rows  # the share of all rows, for records that are not a row each
        values["rows_per_s_first_to_all_visible"] = rows * later / (done_at - first_at)
    if read_at is not None and done_at > read_at:
        values["rows_per_s_from_first_read"] = rows / (done_at - read_at)
        values["s_start_to_first_read"] = read_at - begun_at
        start, taken = meter.used(begun_at, read_at), meter.used(read_at, done_at)
        values["cpu_s_start"] = start.cpu_s["system"]
        values |= {f"cpu_s_start_{name}": cpu_s for name, cpu_s in start.of_java.items()}
        per_million = {**taken.cpu_s, **taken.of_java}
        values |= {f"cpu_s_per_million_{name}": cpu_s * 1e6 / rows for name, cpu_s in per_million.items()}
    return Measured(values, meter.used(begun_at, done_at).disturbed)


def _watch(table: Table, started: Started, timeout_s: float) -> tuple[float, int, float]:
    """When the first rows were seen, how many they were, and when all were."""
    first_at, first_rows = 0.0, 0
    while True:
        trouble = started.trouble(timeout_s)
        begun, ended = table.begun_and_ended()
        now = time.time()
        if begun and not first_at:
            first_at, first_rows = now, table.count()
        # Tasks may share records out in another order than partitions have them: the last ones are not always last.
        if ended and table.is_complete():
            return first_at, first_rows, now
        if trouble:
            raise RunFailedError(f"{table.count()} rows are there: {trouble}")
        time.sleep(POLL_S)
