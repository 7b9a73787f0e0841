"""Recovery at a start, from its first step to its last. A spec, `foreachBatch` and `format("eos")` all start here.

1. Require a head that keeps decisions (H21).
2. Open the driver: head, and a committer for each sink.
3. Report the last completed checkpoint: a driver that was killed reported it to nobody.
4. Start the driver (R1-R3, `twophase/startup.py`): inspect the stores, verify that they agree, claim head and sinks,
   commit what is decided, fence older drivers, abort the rest.
5. Repair Spark's checkpoint folder: delete the files that a power cut truncated, and a plan that was too large (R4).
   Before that, store where the splits begin that the large plan has found.
6. Store the starting positions of new splits, before Spark reads them (R6, R10).
7. Offer the sinks for opening. This is the last step, since opening may change a table: nothing older is prepared now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from connectors.api.contracts import Sink, Source
from connectors.registry import require_head
from connectors.spec import Spec
from spark_jobs.observe.head_reader import read_head
from spark_jobs.observe.report import Listener
from spark_jobs.query.spark_log import JobSparkLog, LocalSparkLog
from spark_jobs.query.spark_log_repair import mend
from spark_jobs.query.stored_spark_log import QueryLog
from spark_jobs.run.known_sinks import KnownSinks, Opening, openings
from spark_jobs.run.open_driver import NOTHING_KNOWN, open_driver, report_last_checkpoint
from spark_jobs.run.starting_points import commit_back, keep_found, starting_points
from twophase.backlog import NO_LIMITS, Limit
from twophase.driver import Driver
from twophase.messages import HeadSnapshot
from twophase.values import StartingPoint


@dataclass(frozen=True, slots=True)
class Recovered:
    """A started driver, and what the query over it is built of."""

    driver: Driver
    began: Mapping[str, StartingPoint]
    """By source: the first position of each split. Empty where the sources are Spark's own."""
    sinks: Sequence[Opening]
    """In the order of the spec, `dead_letter` last. Each is opened with the schema of its rows."""


@contextmanager
def recover(
    spec: Spec,
    sinks: Sequence[Sink],
    log: QueryLog,
    listener: Listener | None,
    *,
    session: str,
    sources: Sequence[Source] = (),
    follows: HeadSnapshot | None = None,
    limits: Mapping[str, Limit] = NO_LIMITS,
    is_stopping: Callable[[], bool] = lambda: False,
    overran: int | None = None,
) -> Iterator[Recovered]:
    """Start a driver, and yield it with what it found. Its connections are closed at the end.

    Called once per epoch: by the runner for each query, by `ExactlyOnce` for each run of a query, by `format("eos")`
    for each batch. Blocks on head, the sinks and the sources. `limits`: by sink, how far it may be behind; a sink with
    a limit may also be away (H32). `follows`: head as the previous driver of this run held it. `listener`: None where
    each batch is a start, which reads no history. `overran`: a checkpoint that is replanned (`TimeLimit`).

    Raises IdentityError, LostCommittableError, FencedError, HeadError, SinkUnavailableError, SourceError, SpecError.
    """
    require_head(spec)
    kept = KnownSinks.of(spec)
    may_be_away = [sink for sink in sinks if sink.name in limits and limits[sink.name].outlasts_outages]
    known = kept.incarnations(read_head(spec), may_be_away) if may_be_away else NOTHING_KNOWN
    told = listener or Listener()
    with open_driver(
        spec,
        sinks,
        log,
        session=session,
        follows=follows,
        commit_back=lambda positions: commit_back(sources, positions),
        limits=limits,
        is_stopping=is_stopping,
        watcher=told.on_driver_event,
        known=known,
    ) as driver:
        if listener is not None:
            report_last_checkpoint(driver, listener)
        driver.start()
        told.on_backlog(driver.owned.waiting)
        began: Mapping[str, StartingPoint] = {}
        if isinstance(log, LocalSparkLog) and not isinstance(log, JobSparkLog):  # a user's query has read its folder
            if overran is not None:
                keep_found(driver, sources, log)
            mend(driver, log, told, overran)
            began = starting_points(driver, sources, log) if sources else {}
        yield Recovered(driver, began, openings(driver, sinks, kept))
