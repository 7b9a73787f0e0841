"""`eos status`: state and history of a pipeline, running or not, as text and as plain data for JSON.

In the data times are seconds since 1970; names with `_s` are seconds, `bytes` are bytes. What is not known is null.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live

from connectors.registry import build_source
from connectors.spec import Spec, promise
from eos.errors import HistoryError
from spark_jobs.cli.options import AsJson, Debug, SpecPath
from spark_jobs.cli.output import out
from spark_jobs.cli.status_text import of_detail, of_overview
from spark_jobs.observe.head_reader import read_history
from spark_jobs.observe.history.model import Checkpoint, Detail, Event, SplitLag, StateSize
from spark_jobs.observe.history.store import NEWEST
from spark_jobs.observe.lag import Lag, measure_now
from spark_jobs.observe.overview import Overview, detail, overview
from spark_jobs.observe.withheld import WithheldSplit
from twophase.positions import total
from twophase.values import CheckpointRecord

_REFRESHED_S = 1.0

Limit = Annotated[int, typer.Option("--limit", min=1, help="Number of checkpoints, and of incidents, to list.")]
CheckpointId = Annotated[
    int | None,
    typer.Option("--checkpoint", metavar="N", min=0, help="Show one checkpoint in detail: every writer, every sink."),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Show changes until Ctrl-C.")]
MeasureLag = Annotated[
    bool, typer.Option("--measure-lag", help="Measure the lag now: connect to the sources, for 15 seconds at most.")
]


def status(
    spec: SpecPath,
    limit: Limit = 10,
    checkpoint: CheckpointId = None,
    follow: Follow = False,
    measure_lag: MeasureLag = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show the state and history of a pipeline, running or not: checkpoints, lag, failures, restarts.

    The newest is shown first. A checkpoint is completed when its decision is stored, and committed when every sink
    shows its rows. A completed checkpoint will be committed, also after a crash. Phases of a checkpoint: `plan` (Spark
    reads new offsets and plans the query), `start` (permits, Spark starts the job), `read` (sources and steps),
    `write`, `prepare`, `decide` (head), `wait` (for sinks with a backlog), `commit`.

    The running driver measures the lag every few seconds. If the newest measurement failed or is too old, the lag is
    unknown: the driver is stopped or paused, or a source does not answer. `--measure-lag` measures it here instead.

    The command only reads. It connects to the sources only with `--measure-lag`, and never to the sinks.

    Exit code: 0, also for a pipeline that has not run yet; 1 if head cannot be read, or the given checkpoint is not
    known; 2 if the spec is wrong.

    Examples:

        eos status orders.yaml

        eos status orders.yaml --checkpoint 812

        eos status orders.yaml --follow

        eos status orders.yaml --measure-lag

        eos status orders.yaml --limit 100 --json
    """
    if measure_lag and (follow or checkpoint is not None):
        raise typer.BadParameter("--measure-lag measures once; write neither --follow nor --checkpoint with it")
    loaded = out.load(spec)
    if checkpoint is not None:
        _show_one(loaded, checkpoint, as_json=as_json)
    elif follow:
        _follow(loaded, limit, as_json=as_json)
    else:
        found = overview(loaded, read_history(loaded), limit, NEWEST)
        if measure_lag:
            sources = [build_source(entry) for entry in loaded.sources]
            found = replace(found, lag=measure_now(sources, found.head, found.lag))
        _show(loaded, found, as_json=as_json)


def _show(spec: Spec, found: Overview, *, as_json: bool) -> None:
    if as_json:
        out.facts(_facts(spec, found))
    else:
        out.show(*_text(spec, found))


def _text(spec: Spec, found: Overview) -> list[RenderableType]:
    return list(of_overview(spec.pipeline, promise(spec), found, time.time()))


def _facts(spec: Spec, found: Overview) -> dict[str, Any]:
    which = {"pipeline": spec.pipeline, "mode": spec.checkpoint.mode, "guarantee": promise(spec)}
    return {"ok": True, **which, **facts(found)}


def _show_one(spec: Spec, checkpoint_id: int, *, as_json: bool) -> None:
    found = detail(spec, read_history(spec), checkpoint_id)
    if found is None:
        message = (
            f"checkpoint {checkpoint_id} of {spec.pipeline} is not known: it is not decided yet, or no longer retained"
        )
        raise HistoryError(message, remedy="`eos status` lists the known checkpoints")
    if as_json:
        out.facts({"ok": True, "pipeline": spec.pipeline, **detail_facts(found)})
    else:
        out.show(*of_detail(found))


def _follow(spec: Spec, limit: int, *, as_json: bool) -> None:
    console = out.console()
    try:
        if as_json or not console.is_terminal:
            for found in _changes(spec, limit):
                _show(spec, found, as_json=as_json)
            return
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                found = overview(spec, read_history(spec), limit, NEWEST)
                live.update(Group(*_text(spec, found)), refresh=True)
                time.sleep(_REFRESHED_S)
    except KeyboardInterrupt:
        return


def _changes(spec: Spec, limit: int) -> Iterator[Overview]:
    """Yield the overview of now, and each one that differs from the overview before it, except in the lag's age."""
    last = None
    while True:
        found, now = overview(spec, read_history(spec), limit, NEWEST), time.time()
        seen = replace(found, lag=Lag()), found.lag.records(now), found.lag.unknown(now)
        if seen != last:
            yield found
        last = seen
        time.sleep(_REFRESHED_S)


def facts(of: Overview) -> dict[str, Any]:
    """Return the overview of a pipeline as plain data."""
    head = of.head
    return {
        "has_run": head is not None,
        "paused": asdict(of.paused) if of.paused is not None else None,
        "running": asdict(of.presence) if of.presence is not None else None,
        "epoch": head.epoch if head else None,
        "incarnation": head.incarnation if head else None,
        "completed": head.completed if head else None,
        "committed": head.committed if head else None,
        "positions": {source: dict(splits) for source, splits in head.positions.items()} if head else {},
        "lag": _lag_facts(of.lag, time.time()),
        "withheld": withheld_facts(of.withheld),
        "totals": asdict(of.totals),
        "summary": asdict(of.summary),
        "expectations": [asdict(each) for each in of.rules],
        "state": state_facts(of.state),
        "checkpoints": [checkpoint_facts(each, of.record(each)) for each in of.checkpoints],
        "incidents": [event_facts(each) for each in of.incidents],
        "aborted": [asdict(each) for each in of.aborted],
        "runs": [asdict(each) for each in of.runs],
        "history_unread": of.unread or None,
    }


def checkpoint_facts(of: Checkpoint, record: CheckpointRecord | None = None) -> dict[str, Any]:
    """`record`: head's, while it is retained: only it has ranges, and knows of repairs."""
    return {
        "checkpoint_id": of.checkpoint_id,
        "incarnation": of.incarnation,
        "epoch": of.epoch,
        "try": of.attempt,
        "run": of.session or None,
        "started_at": of.started_at,
        "decided_at": of.decided_at,
        "committed_at": of.committed_at,
        "duration_s": of.duration_s,
        "phases_s": dict(of.phases.items()),
        "records": of.records,
        "rows": of.rows,
        "bytes": of.bytes,
        "writers": of.writers,
        "skipped": of.skipped,
        "lag": of.lag,
        "state": "committed" if of.is_committed else "completed",
        "replayed": of.replayed,
        "repaired": record.repaired if record is not None else None,
        "state_partitions": record.state_partitions if record is not None else None,
        "mode": of.mode,
        "sinks": [asdict(each) for each in of.sinks],
        "ranges": _ranges(record.ranges) if record is not None else None,
    }


def detail_facts(of: Detail) -> dict[str, Any]:
    """One checkpoint, with every writer."""
    return {
        **checkpoint_facts(of.checkpoint),
        "ranges": _ranges(of.ranges),
        "acknowledgements": [asdict(each) for each in of.acknowledgements],
        "aborted": [asdict(each) for each in of.aborted],
        "split_lag": split_lag_facts(of.lag),
        "expectations": [asdict(each) for each in of.rules],
        "state_operators": [asdict(each) for each in of.state],
    }


def state_facts(of: StateSize | None) -> dict[str, Any] | None:
    """Return the state by operator, with totals; None: the query has none."""
    if of is None:
        return None
    operators = [asdict(each) for each in of.by_operator]
    return {
        "checkpoint_id": of.checkpoint_id,
        "rows": of.rows,
        "memory_bytes": of.memory_bytes,
        "operators": operators,
    }


def event_facts(of: Event) -> dict[str, Any]:
    """Something that happened."""
    return asdict(of)


def _lag_facts(of: Lag, now: float) -> dict[str, Any] | None:
    """Return the lag with its age; None if no spec names the sources."""
    if not of.sources:
        return None
    return {
        "records": of.records(now),
        "unknown": of.unknown(now) or None,
        "at": of.at,
        "age_s": of.age_s(now),
        "measured": of.measured,
        "withheld": of.withheld_records,
        "splits": _splits(of.splits),
    }


def split_lag_facts(of: Sequence[SplitLag]) -> dict[str, Any] | None:
    """Return the lag that was the newest as a checkpoint completed; None where it was unknown."""
    if not of:
        return None
    return {"at": of[0].at, "records": total(each.records for each in of), "splits": _splits(of)}


def _splits(of: Sequence[SplitLag]) -> list[dict[str, Any]]:
    return [{**asdict(each), "records": each.records} for each in of]


def withheld_facts(of: Sequence[WithheldSplit]) -> dict[str, Any] | None:
    """Records that cannot be read yet; None where there are none."""
    if not of:
        return None
    splits = [{**asdict(each), "records": each.records} for each in of]
    at, since = max(each.at for each in of), min(each.since for each in of)
    return {"at": at, "since": since, "records": total(each.records for each in of), "splits": splits}


def _ranges(of: Any) -> dict[str, list[dict[str, Any]]]:
    return {source: [asdict(each) for each in ranges] for source, ranges in of.items()}
