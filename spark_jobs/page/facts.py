"""From what is known of a pipeline to what the API schemas."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Final, Literal, TypeVar

from connectors.spec import guarantees, promise
from eos.errors import ConnectorError
from spark_jobs.observe.history.model import PHASES, AbortedAttempt, Bucket, Run
from spark_jobs.observe.history.model import Detail as KeptDetail
from spark_jobs.observe.history.store import SinkStats, shares, waiting
from spark_jobs.observe.lag import read_lag
from spark_jobs.observe.overview import NO_HISTORY
from spark_jobs.observe.withheld import read_withheld
from spark_jobs.page import schemas
from spark_jobs.page.pipeline_view import PipelineView
from spark_jobs.page.state import can_steer, newest_run, state_of
from twophase.head_value import HeadValue
from twophase.in_doubt import InDoubtTransaction
from twophase.positions import total
from twophase.requests import Answer, Request

_Found = TypeVar("_Found")

ACTIONS: Final = ("checkpoint", "savepoint", "pause", "restart", "stop")
"""Of a pipeline that is not paused, in the order of their buttons."""
ACTIONS_PAUSED: Final = ("resume", "restart", "stop")
"""Of a paused one, which refuses checkpoints and savepoints."""

_WINDOW_S: Final = 60.0
_INTERVALS: Final = 5
_SHORT_S: Final = 10.0
"""The shortest part of a bucket that has a rate."""
_NEWEST: Final = 20  # of those one is committed, unless a sink is far behind


def overview(watched: PipelineView) -> schemas.Overview:
    """What cannot be read is named, and the rest is told all the same."""
    problems: list[schemas.Problem] = []

    def read(what: Callable[[], _Found]) -> _Found | None:
        try:
            return what()
        except ConnectorError as error:
            problems.append(schemas.Problem(message=error.message, remedy=error.remedy))
            return None

    history, presence, now = watched.history, watched.presence(), time.time()
    run = read(lambda: newest_run(watched))
    head = read(watched.head)
    totals = read(history.totals)
    if head is not None and totals is not None and totals.since is None:
        problems.append(schemas.Problem(message=NO_HISTORY))
    newest = read(lambda: history.checkpoints(_NEWEST)) or ()
    lag = read_lag(watched.spec.checkpoint.folder, [source.name for source in watched.spec.sources], head)
    rules = read(history.rules) or ()
    of_run = watched.live.state_size if watched.live is not None else None
    kept = of_run or read(history.state)
    withheld = read_withheld(watched.spec.checkpoint.folder)
    window_s = window_of(watched.spec.checkpoint.interval_s, run if presence is not None else None, now)
    lately = read(lambda: history.series(now - window_s, now, window_s)) or ()
    state, detail = state_of(watched, presence)
    live, activity, steerable = watched.live, watched.activity(), can_steer(watched, presence, run)
    return schemas.Overview(
        key=watched.key,
        name=watched.name,
        guarantee=promise(watched.spec),
        mode=watched.spec.checkpoint.mode,
        state=state,
        detail=detail,
        is_running=presence is not None,
        is_here=live is not None,
        can_steer=steerable,
        actions=list(ACTIONS_PAUSED if state == "paused" else ACTIONS) if steerable else [],
        now=now,
        interval_s=watched.spec.checkpoint.interval_s,
        head=head_of(head) if head is not None else None,
        run=schemas.Run.model_validate(run) if run is not None else None,
        totals=schemas.Totals.model_validate(totals) if totals is not None else NOTHING,
        throughput=throughput(lately, window_s),
        lag_records=lag.records(now),
        lag_unknown=lag.unknown(now) if lag.sources else "",
        lag_at=lag.at,
        lag_age_s=lag.age_s(now),
        lag_measured=lag.measured,
        lag=[schemas.SplitLag.model_validate(each) for each in lag.splits],
        withheld_records=total(each.records for each in withheld),
        withheld=[schemas.WithheldSplit.model_validate(each) for each in withheld],
        in_progress=schemas.InProgress.model_validate(activity) if activity is not None else None,
        state_size=schemas.StateSize.model_validate(kept) if kept is not None else None,
        spark_ui=live.spark_ui if live is not None and presence is not None else None,
        run_page=presence.page if live is None and presence is not None else None,
        expectations=[schemas.Expectation.model_validate(each) for each in rules],
        last=schemas.Checkpoint.model_validate(newest[0]) if newest else None,
        last_duration_s=next((each.duration_s for each in newest if each.duration_s is not None), None),
        problems=problems,
    )


NOTHING: Final = schemas.Totals(
    since=None, checkpoints=0, records=0, rows=0, bytes=0, aborted=0, failures=0, restarts=0, runs=0, skipped=0
)


def window_of(interval_s: float, run: Run | None, now: float) -> float:
    """Seconds that tell the throughput of now: a minute, or several checkpoints where they are far between; not more
    than the `run` that goes on."""
    window_s = max(_WINDOW_S, _INTERVALS * interval_s)
    return min(window_s, max(now - run.started_at, 1.0)) if run is not None else window_s


def throughput(buckets: Sequence[Bucket], window_s: float) -> schemas.Throughput:
    """`buckets`: all that was decided in these seconds."""
    return schemas.Throughput(
        window_s=window_s,
        records_per_s=sum(each.records for each in buckets) / window_s,
        rows_per_s=sum(each.rows for each in buckets) / window_s,
        bytes_per_s=sum(each.bytes for each in buckets) / window_s,
    )


def head_of(head: HeadValue) -> schemas.Head:
    """Its numbers."""
    return schemas.Head.model_validate(head)


def killed(watched: PipelineView, limit: int) -> list[schemas.KilledRun]:
    """Return the newest runs that ended without a report. A run on another machine counts as alive while it may be."""
    presence, newest = watched.presence(), newest_run(watched)
    living = {presence.session} if presence is not None else set()
    if newest is not None and can_steer(watched, presence, newest):
        living.add(newest.run_id)
    return [
        schemas.KilledRun.model_validate({"last_at": each.last_at, **asdict(each.run)})
        for each in watched.history.killed(living, limit)
    ]


def aborted(found: Iterable[AbortedAttempt], quoted: Callable[[str], str]) -> list[schemas.AbortedAttempt]:
    """Aborted attempts. `quoted`: returns the reason that may be shown."""
    return [schemas.AbortedAttempt.model_validate(replace(each, reason=quoted(each.reason))) for each in found]


def detail(found: KeptDetail, quoted: Callable[[str], str]) -> schemas.Detail:
    """One checkpoint, whole. `quoted`: see `aborted`."""
    return schemas.Detail(
        checkpoint=schemas.Checkpoint.model_validate(found.checkpoint),
        ranges=[
            schemas.Range(source=source, split=each.split, start=each.start, end=each.end)
            for source, ranges in found.ranges.items()
            for each in ranges
        ],
        acknowledgements=[schemas.Acknowledgement.model_validate(each) for each in found.acknowledgements],
        aborted=aborted(found.aborted, quoted),
        lag=[schemas.SplitLag.model_validate(each) for each in found.lag],
        expectations=[schemas.Expectation.model_validate(each) for each in found.rules],
        state=[schemas.StateOperator.model_validate(each) for each in found.state],
    )


def series(
    buckets: Sequence[Bucket], metrics: Sequence[schemas.Metric], since: float, width_s: float, until: float
) -> schemas.Series:
    """Return charts over the same buckets. Without a checkpoint a rate is 0, and everything else is unknown.

    The last bucket may be cut off by `until`: its rates are per second of its part.
    """
    return schemas.Series(
        since=since,
        width_s=width_s,
        buckets=len(buckets),
        checkpoints=sum(each.checkpoints for each in buckets),
        charts=[_chart(metric, buckets, until) for metric in metrics],
    )


def _rate(count: int, of: Bucket, until: float) -> float | None:
    """Return `count` per second of the bucket; None if `until` leaves too little of the bucket for a rate."""
    seconds = min(until - of.at, of.width_s)
    return count / seconds if seconds >= min(of.width_s, _SHORT_S) else None


def _chart(metric: schemas.Metric, buckets: Sequence[Bucket], until: float) -> schemas.Chart:
    def line(name: str, value: Callable[[Bucket], float | None]) -> schemas.Line:
        return schemas.Line(name=name, values=[value(each) for each in buckets])

    match metric:
        case "rate":
            records, rows = (lambda b: _rate(b.records, b, until)), (lambda b: _rate(b.rows, b, until))
            lines = [line("records", records), line("rows", rows)]
            return schemas.Chart(metric=metric, unit="1/s", lines=lines)
        case "lag":
            return schemas.Chart(metric=metric, unit="1", lines=[line("records", lambda b: b.lag)])
        case "duration":
            lines = [line("mean", lambda b: b.duration_s), line("longest", lambda b: b.max_duration_s)]
            return schemas.Chart(metric=metric, unit="s", lines=lines)
        case "phases":
            seconds = [dict(each.phases.items()) for each in buckets]
            lines = [schemas.Line(name=name, values=[each[name] for each in seconds]) for name in PHASES]
            return schemas.Chart(metric=metric, unit="s", lines=lines)


def sinks(watched: PipelineView) -> schemas.Sinks:
    """As the spec has them, with what the history and head say."""
    spec, head, location = watched.spec, watched.head(), watched.spec.checkpoint.folder
    had = {each.sink: each for each in shares(location)}
    behind = {each.sink: each for each in waiting(location, head.incarnation, head.committed)} if head else {}
    found = []
    for entry, words in zip(spec.outputs, guarantees(spec), strict=True):
        nothing = SinkStats(entry.name, 0, 0, 0, None)
        all_of_it, of_backlog = had.get(entry.name, nothing), behind.get(entry.name, nothing)
        found.append(
            schemas.Sink(
                name=entry.name,
                connector=entry.connector,
                where=entry.where,
                variant="direct" if spec.checkpoint.at_least_once else entry.commit,
                is_dead_letter=entry is spec.dead_letter,
                promise=words.promise,
                visible=words.visible,
                backlog_checkpoints=of_backlog.checkpoints,
                backlog_rows=of_backlog.rows,
                backlog_bytes=of_backlog.bytes,
                rows=all_of_it.rows,
                bytes=all_of_it.bytes,
                checkpoints=all_of_it.checkpoints,
                committed_at=all_of_it.committed_at,
            )
        )
    return schemas.Sinks(sinks=found)


def transaction(doubt: InDoubtTransaction) -> schemas.Transaction:
    """What a sink holds, and what becomes of it."""
    own = doubt.prepared.transaction
    return schemas.Transaction(
        sink=doubt.sink,
        id=doubt.id,
        checkpoint_id=own.scope.checkpoint_id if own is not None else None,
        epoch=own.scope.epoch if own is not None else None,
        rows=doubt.committable.rows if doubt.committable is not None else None,
        decided_at=doubt.decided_at,
        then=doubt.resolution.value,
        why=doubt.why,
    )


def request_of(asked: Request, answer: Answer | None, now: float) -> schemas.RequestState:
    """A request, and what became of it."""
    if answer is None:
        state: Literal["waiting", "done", "refused", "expired"] = "waiting" if now < asked.expires_at else "expired"
    else:
        state = "done" if answer.ok else "refused"
    return schemas.RequestState(
        id=asked.id,
        kind=asked.kind,
        asked_at=asked.asked_at,
        asked_by=asked.asked_by,
        expires_at=asked.expires_at,
        state=state,
        message=answer.message if answer is not None else "",
        facts=dict(answer.facts) if answer is not None else {},
    )
