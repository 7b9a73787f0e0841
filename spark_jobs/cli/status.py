"""`eos status`: the checkpoint history from the stored records, whether the pipeline runs or not."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from connectors.registry import open_head
from connectors.spec import Spec, promise
from spark_jobs.cli.options import AsJson, Debug, SpecPath
from spark_jobs.cli.output import out
from twophase.status import Status, read_status
from twophase.values import CheckpointRecord


def status(spec: SpecPath, as_json: AsJson = False, debug: Debug = False) -> None:
    """Show the checkpoint history from the stored records, running or not.

    Newest first, as many as `checkpoint.retained` keeps. A checkpoint is completed once its decision is stored, and
    committed once every sink shows its rows: what is completed will be committed, also after a crash.

    Reads only, and asks neither Kafka nor the sinks.

    Exit code: 0, also for a pipeline that has not run yet; 1 if the history cannot be read; 2 if the spec is wrong.

    Examples:

        eos status orders.yaml

        eos status orders.yaml --json
    """
    loaded = out.load(spec)
    found = read_history(loaded)
    if as_json:
        which = {"pipeline": loaded.pipeline, "mode": loaded.checkpoint.mode, "has_run": found is not None}
        out.facts({"ok": True, **which, **_facts(found)})
    elif found is None:
        out.show(out.text(f"{loaded.pipeline} has not run yet."))
    else:
        out.show(*_lines(found), out.text(promise(loaded)), _table(found))


def read_history(spec: Spec) -> Status | None:
    """A pipeline that never ran has no folder for head, and looking must not make one."""
    if spec.checkpoint.head is None and not (spec.checkpoint.location / "head").is_dir():
        return None
    store = open_head(spec)
    try:
        return read_status(store)
    finally:
        store.close()


def _lines(found: Status) -> tuple[Text, ...]:
    head = found.head
    return (
        out.text(f"{head.pipeline}: epoch {head.epoch}, incarnation {head.incarnation}", "bold"),
        out.text(f"completed up to {_number(head.completed)}, committed up to {_number(head.committed)}"),
    )


def _number(checkpoint_id: int) -> str:
    return "none yet" if checkpoint_id < 0 else f"checkpoint {checkpoint_id}"


def _table(found: Status) -> Table:
    table = Table()
    for heading in ("checkpoint", "epoch", "try", "decided (UTC)", "took", "records", "rows", "state"):
        table.add_column(heading, justify="left" if heading in {"decided (UTC)", "state"} else "right")
    for record in found.checkpoints:
        table.add_row(
            str(record.checkpoint_id),
            str(record.scope.epoch),
            str(record.scope.attempt),
            _time(record.decided_at),
            f"{record.decided_at - record.started_at:.2f} s",
            f"{_records(record):,}",
            f"{record.rows:,}",
            out.text(_state(found, record)),
        )
    return table


def _state(found: Status, record: CheckpointRecord) -> str:
    state = "committed" if found.is_committed(record) else "completed"
    if record.state_partitions is not None:
        return f"{state}, rescaled to {record.state_partitions} state partitions"
    repaired = ", repaired" if record.repaired else ""
    return f"{state} at-least-once{repaired}" if record.direct else f"{state}{repaired}"


def _records(record: CheckpointRecord) -> int:
    """Offsets covered, over all splits: with gaps (markers, compaction) more than there were records."""
    return sum(each.end - each.start for ranges in record.ranges.values() for each in ranges)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")


def _facts(found: Status | None) -> dict[str, object]:
    if found is None:
        return {"checkpoints": []}
    head = found.head
    return {
        "epoch": head.epoch,
        "incarnation": head.incarnation,
        "completed": head.completed,
        "committed": head.committed,
        "positions": {source: dict(splits) for source, splits in head.positions.items()},
        "checkpoints": [
            {
                "checkpoint_id": record.checkpoint_id,
                "epoch": record.scope.epoch,
                "try": record.scope.attempt,
                "started_at": record.started_at,
                "decided_at": record.decided_at,
                "records": _records(record),
                "rows": record.rows,
                "state": "committed" if found.is_committed(record) else "completed",
                "repaired": record.repaired,
                "mode": "at-least-once" if record.direct else "exactly-once",
                "state_partitions": record.state_partitions,
                "ranges": {
                    source: [{"split": each.split, "start": each.start, "end": each.end} for each in ranges]
                    for source, ranges in record.ranges.items()
                },
            }
            for record in found.checkpoints
        ],
    }
