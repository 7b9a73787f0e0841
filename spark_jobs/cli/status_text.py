"""What `eos status` prints for people, readable at 80 columns. Pure: from an overview to what a console can show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.console import RenderableType
from rich.table import Table

from spark_jobs.cli.output import out
from spark_jobs.cli.quantities import ago, count, counted, moment, position, seconds, short, size
from spark_jobs.observe.history.model import Checkpoint, Detail, Event, RuleCount, Run, SplitLag, StateOperator
from spark_jobs.observe.history.summary import Distribution, Summary, missing
from spark_jobs.observe.lag import Lag
from spark_jobs.observe.lag import describe as describe_lag
from spark_jobs.observe.overview import NO_HISTORY, Overview
from spark_jobs.observe.withheld import WithheldSplit, describe
from twophase.positions import total
from twophase.values import CheckpointRecord

_INCIDENTS = 6  # that are shown


def of_overview(pipeline: str, guarantee: str, of: Overview, now: float) -> Iterator[RenderableType]:
    """A pipeline."""
    yield out.text(f"{pipeline}: {_state(of, now)}", "bold")
    if of.paused is not None:
        words = f"paused since {moment(of.paused.at)} by {of.paused.by}: it takes no checkpoint until `eos resume`"
        yield out.text(words, "yellow")
    if of.unread:
        yield out.text(f"warning: {of.unread}", "yellow")
    head = of.head
    if head is None:
        yield out.text(f"{pipeline} has not run yet.")
        yield from _incidents(of)
        return
    yield out.text(guarantee)
    yield out.text(f"epoch {head.epoch}, incarnation {head.incarnation}")
    yield out.text(f"completed up to {_number(head.completed)}, committed up to {_number(head.committed)}")
    if of.lag.sources:
        yield out.text(_lag(of.lag, now), "yellow" if of.lag.unknown(now) else "")
    for source in dict.fromkeys(each.source for each in of.withheld):
        yield out.text(_withheld([each for each in of.withheld if each.source == source], now), "yellow")
    totals = of.totals
    if totals.since is None and not of.unread:
        yield out.text(NO_HISTORY, "yellow")
    if totals.since is not None:
        yield out.text(
            f"since {moment(totals.since)}: {counted(totals.checkpoints, 'checkpoint')}, "
            f"{counted(totals.records, 'record')}, {counted(totals.rows, 'row')} ({size(totals.bytes)}); "
            f"{counted(totals.aborted, 'aborted try')}, {counted(totals.failures, 'failure')}, "
            f"{counted(totals.restarts, 'restart')}, {counted(totals.runs, 'run')}"
        )
    if totals.skipped:
        yield out.text(_skipped(totals.skipped, of.summary), "yellow")
    if of.rules:
        yield ""
        yield _rules(of.rules)
    if of.state is not None and of.state.by_operator:
        yield ""
        yield out.text(f"state after checkpoint {of.state.checkpoint_id}")
        yield _state_table(of.state.by_operator)
    yield ""
    yield _checkpoints(of, now)
    for _, first, last in missing(of.checkpoints):
        which = f"checkpoint {first} is" if first == last else f"checkpoints {first} to {last} are"
        yield out.text(f"{which} not in the history: it could not be written, or the driver was killed", "yellow")
    if of.summary.checkpoints:
        yield ""
        yield _summary(of.summary)
    yield from _incidents(of)


def of_detail(of: Detail) -> Iterator[RenderableType]:
    """One checkpoint, whole."""
    found = of.checkpoint
    yield out.text(f"checkpoint {found.checkpoint_id}: {_how(found)}", "bold")
    yield out.text(f"epoch {found.epoch}, try {found.attempt}, incarnation {found.incarnation}, {found.mode}")
    moments = (("started", found.started_at), ("decided", found.decided_at), ("committed", found.committed_at))
    yield out.text(", ".join(f"{name} {moment(at)}" for name, at in moments if at is not None))
    took = ", ".join(f"{name} {seconds(value)}" for name, value in found.phases.items() if value is not None)
    whole = f"took {seconds(found.duration_s)} s" if found.duration_s is not None else "phases"
    yield out.text(f"{whole}: {took}" if took else "where its time went was not measured")
    figures = (
        counted(found.records, "record"),
        counted(found.rows, "row"),
        size(found.bytes),
        f"lag {_maybe(found.lag)}",
        *([f"{counted(found.skipped, 'bad record')} left out"] if found.skipped else []),
    )
    yield out.text(", ".join(figures))
    yield ""
    yield _table(
        ("sink", "commit", "rows", "bytes", "writers", "committed", "took s"),
        [
            (
                s.sink,
                s.variant,
                count(s.rows),
                size(s.bytes),
                str(s.writers),
                _time(s.committed_at),
                seconds(s.commit_s),
            )
            for s in found.sinks
        ],
    )
    if of.rules:
        yield ""
        yield _rules(of.rules)
    if of.state:
        yield ""
        yield _state_table(of.state)
    if of.acknowledgements:
        yield ""
        yield _table(
            ("writer", "attempt", "rows", "bytes", "acknowledged", "read", "write", "prepare"),
            [
                (
                    f"{each.sink}/{each.task}",
                    str(each.attempt),
                    count(each.rows),
                    size(each.bytes),
                    _time(each.acknowledged_at),
                    *map(seconds, (each.read_s, each.write_s, each.prepare_s)),
                )
                for each in of.acknowledgements
            ],
        )
    behind = {(each.source, each.split): each for each in of.lag}
    offsets = [
        (source, each.split, position(each.start), position(each.end), _maybe(behind.get((source, each.split))))
        for source, ranges in of.ranges.items()
        for each in ranges
    ]
    if offsets:
        yield ""
        yield _table(("source", "split", "from offset", "to offset", "lag"), offsets)
    for each in of.aborted:
        yield out.text(f"{moment(each.aborted_at)}  try {each.attempt} of epoch {each.epoch} aborted: {each.reason}")


def _state(of: Overview, now: float) -> str:
    if (found := of.presence) is not None:
        page = f", page {found.page}" if found.page else ""
        return f"running for {ago(now - found.started_at)} (pid {found.pid} on {found.host}{page})"
    return f"not running{_ended(of.runs)}"


def _ended(runs: Sequence[Run]) -> str:
    if not runs:
        return ""
    newest = runs[0]
    if newest.ended_at is None:
        return f"; its last run, begun {moment(newest.started_at)} on {newest.host}, was killed"
    return f"; its last run ended {moment(newest.ended_at)}: {newest.ended}"


def _number(checkpoint_id: int) -> str:
    return "none yet" if checkpoint_id < 0 else f"checkpoint {checkpoint_id}"


def _lag(of: Lag, now: float) -> str:
    words = f"lag {describe_lag(of, now, ago)}"
    if of.unknown(now):
        return f"{words}; `eos status --measure-lag` queries the sources"
    most = sorted(of.splits, key=lambda each: -(each.records or 0))[:3]
    splits = ", ".join(f"{each.split} {count(each.records)}" for each in most)
    rest = f", {len(of.splits) - len(most)} more" if len(of.splits) > len(most) else ""
    withheld = f"; {count(of.withheld_records)} more cannot be read yet" if of.withheld_records != 0 else ""
    return f"{words} ({splits}{rest}){withheld}"


def _withheld(of: Sequence[WithheldSplit], now: float) -> str:
    return f"{count(total(each.records for each in of))} records behind: {describe(of, now)}"


def _skipped(since_begun: int, of: Summary) -> str:
    newest = f"{count(of.skipped)} in the newest {counted(of.checkpoints, 'checkpoint')}"
    share = f" ({of.skipped_share:.2%} of their records)" if of.skipped_share is not None else ""
    return f"left out by on_bad_record: skip: {counted(since_begun, 'record')}, {newest}{share}"


def _rules(of: Sequence[RuleCount]) -> Table:
    return _table(
        ("expectation", "action", "rows", "failed", "share"),
        [
            (
                f"{each.step}.{each.rule}",
                each.action,
                count(each.rows),
                count(each.failed),
                f"{each.failed / each.rows:.2%}" if each.rows else "",
            )
            for each in of
        ],
    )


def _state_table(of: Sequence[StateOperator]) -> Table:
    """Rows that the checkpoint removed are in `--json` only: a line has 80 columns."""
    lines = [
        (
            each.step or str(each.number),
            each.operator,
            *map(count, (each.rows, each.updated, each.dropped)),
            size(each.memory_bytes),
            count(each.commit_ms),
        )
        for each in of
    ]
    if len(of) > 1:
        rows, memory_bytes = sum(each.rows for each in of), sum(each.memory_bytes for each in of)
        lines.append(("all", "", count(rows), "", "", size(memory_bytes), ""))
    return _table(("step", "operator", "rows", "updated", "dropped", "memory", "commit ms"), lines)


def _checkpoints(of: Overview, now: float) -> Table:
    today = datetime.fromtimestamp(now, UTC).date()
    return _table(
        ("checkpoint", "decided", "took s", "job", "decide", "commit", "records", "rows", "state"),
        [
            (
                str(each.checkpoint_id),
                short(each.decided_at, today),
                seconds(each.duration_s if each.duration_s is not None else each.decided_at - each.started_at),
                seconds(each.decided_at - each.started_at),
                seconds(each.phases.decide_s),
                seconds(each.phases.commit_s),
                count(each.records),
                count(each.rows),
                _how(each) + _aside(of.record(each)) + (f", {count(each.skipped)} left out" if each.skipped else ""),
            )
            for each in of.checkpoints
        ],
    )


def _how(of: Checkpoint) -> str:
    state = "committed" if of.is_committed else "completed"
    how = " at-least-once" if of.mode == "at-least-once" else ""
    return f"{state}{how}, try {of.attempt}" if of.attempt > 1 else f"{state}{how}"


def _aside(record: CheckpointRecord | None) -> str:
    """What only head tells of a checkpoint."""
    if record is None:
        return ""
    if record.state_partitions is not None:
        return f", rescaled to {record.state_partitions} state partitions"
    return ", repaired" if record.repaired else ""


def _summary(of: Summary) -> Table:
    figures: list[tuple[str, Distribution | None, bool]] = [("took s", of.duration_s, True)]
    figures += [(f"  {name}", found, True) for name, found in of.phases.items() if found is not None and found.max > 0]
    figures += [("records", of.records, False), ("rows", of.rows, False), ("bytes", of.bytes, False)]
    return _table(
        (f"of the newest {count(of.checkpoints)}", "p50", "p95", "p99", "max"),
        [
            (name, *(seconds(each) if timed else count(round(each)) for each in (of.p50, of.p95, of.p99, of.max)))
            for name, of, timed in figures
            if of is not None
        ],
        left=1,
    )


def _incidents(of: Overview) -> Iterator[RenderableType]:
    told: list[tuple[float, str, Event | None]] = [(each.at, _incident(each), each) for each in of.incidents]
    told += [
        (each.aborted_at, f"try {each.attempt} of checkpoint {each.checkpoint_id} aborted: {each.reason}", None)
        for each in of.aborted
    ]
    told.sort(key=lambda each: -each[0])
    newest = next((event for _, _, event in told if event is not None and event.remedy), None)
    lines = Table.grid(padding=(0, 2, 0, 0))
    for at, text, event in told[:_INCIDENTS]:
        lines.add_row(out.text(moment(at)), out.text(text))
        if event is not None and event is newest:
            lines.add_row("", out.text(f"remedy: {event.remedy}"))
    if told:
        yield ""
        yield lines


def _incident(of: Event) -> str:
    where = f" at checkpoint {of.checkpoint_id}" if of.checkpoint_id is not None else ""
    match of.kind:
        case "request" | "savepoint" | "reset" | "repair":
            return of.message
        case "restart":
            return f"restart{where}, {of.message}"
        case _:
            return f"{of.kind}{where}{f': {of.error}' if of.error else ''}: {of.message}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], left: int = 0) -> Table:
    """Numbers to the right; `left`: so many of the first columns hold none."""
    texts = {
        "step",
        "operator",
        "sink",
        "commit",
        "writer",
        "source",
        "split",
        "state",
        "decided",
        "committed",
        "acknowledged",
    }
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < left or heading in texts else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(out.text, row))
    return table


def _time(at: float | None) -> str:
    return moment(at)[11:] if at is not None else ""


def _maybe(value: int | SplitLag | None) -> str:
    if value is None:
        return "?"
    return count(value.records if isinstance(value, SplitLag) else value)
