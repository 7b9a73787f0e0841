"""Savepoints as the commands show them: as plain facts, and for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from eos.errors import HeadFormatError, SavepointError
from spark_jobs.cli.output import out
from spark_jobs.cli.quantities import position
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.job import is_of_a_job
from spark_jobs.savepoints.manifest import Manifest
from spark_jobs.savepoints.place import Found, Savepoint
from spark_jobs.savepoints.take import Taken
from twophase.codec import decode_head
from twophase.positions import Position


def facts_of(taken: Taken) -> dict[str, object]:
    """Of a savepoint that was taken just now."""
    m = taken.manifest
    return {
        "folder": str(taken.at),
        "id": m.id,
        "pipeline": m.pipeline,
        "checkpoint_id": m.checkpoint_id,
        "bytes": m.bytes,
        "later": m.later,
        "was_running": taken.was_running,
    }


def lines_of(taken: Taken) -> Iterator[Text]:
    """The same for people."""
    m = taken.manifest
    yield out.line(f"Savepoint of {m.pipeline}, checkpoint {m.checkpoint_id}, {m.bytes:,} bytes:", "bold")
    yield out.line(f"  {taken.at}")
    if m.lacking and taken.was_running:
        yield out.line(f"  It does not hold {m.lacking}: decided, and not yet done everywhere when it was taken.")
    elif m.lacking and is_of_a_job(m):
        yield out.line(f"  It does not hold {m.lacking}, which a restore from it writes a second time.")
        yield out.line("  If the job has ended, start it once for a savepoint that holds them, and take another one.")
    elif m.lacking:
        why = "committed in the sinks, and the pipeline ended before Spark marked it as done"
        yield out.line(f"  It does not hold {m.lacking}: {why}. A start from it writes those rows a second time.")
        yield out.line("  For a savepoint that holds them, run `eos run SPEC --until-caught-up`, and take another one.")


def facts_in(savepoint: Savepoint, manifest: Manifest) -> dict[str, object]:
    """All that one holds."""
    plan = manifest.plan
    return {
        "folder": str(savepoint.at),
        "format": manifests.FORMAT,
        "id": manifest.id,
        "pipeline": manifest.pipeline,
        "incarnation": manifest.incarnation,
        "checkpoint_id": manifest.checkpoint_id,
        "decided_at": manifest.decided_at,
        "taken_at": manifest.taken_at,
        "later": manifest.later,
        "positions": _positions(savepoint, manifest),
        "operators": [{"step": o.step, "kind": o.kind, "state": o.state} for o in plan.operators] if plan else None,
        "described": {kind: dict(each) for kind, each in plan.described.items()} if plan else None,
        "spec": plan.spec if plan else None,
        "versions": dict(manifest.versions),
        "files": len(manifest.files),
        "bytes": manifest.bytes,
        "state_bytes": manifest.state_bytes,
    }


def _positions(savepoint: Savepoint, manifest: Manifest) -> dict[str, dict[str, Position]] | None:
    """None: they cannot be read, which the damage tells."""
    try:
        head = decode_head(savepoint.content(manifests.HEAD, manifest))
    except (SavepointError, HeadFormatError):
        return None
    return {source: dict(splits) for source, splits in head.positions.items()}


def lines_in(savepoint: Savepoint, manifest: Manifest) -> Iterator[Text]:
    """The same for people."""
    yield out.line(f"{manifest.pipeline}: checkpoint {manifest.checkpoint_id}, id {manifest.id}", "bold")
    yield out.line(f"taken {_time(manifest.taken_at)} UTC, of incarnation {manifest.incarnation}")
    versions = ", ".join(f"{name} {version}" for name, version in sorted(manifest.versions.items()))
    yield out.line(f"format {manifests.FORMAT}, written by {versions}")
    if manifest.lacking:
        yield out.line(f"it does not hold {manifest.lacking}, decided before it was taken")
    size = f"{manifest.bytes:,} bytes in {len(manifest.files)} files, {manifest.state_bytes:,} of them state"
    yield out.line(size)
    for source, splits in (_positions(savepoint, manifest) or {}).items():
        yield out.line(
            f"source {source} goes on at {', '.join(f'{s}={position(n)}' for s, n in sorted(splits.items()))}"
        )
    for operator in manifest.plan.operators if manifest.plan else ():
        yield out.line(f"state of {operator.named}" + (f": {operator.state}" if operator.state else ""))
    for name, sink in manifest.plan.described.get("sinks", {}).items() if manifest.plan else ():
        yield out.line(f"sink {name}: {', '.join(value for value in sink.values() if value)}")


def listed(found: Found) -> dict[str, object]:
    """Of one among others."""
    m = found.manifest
    if m is None:
        return {"folder": str(found.at), "is_savepoint": False, "why": found.why}
    shown = {"pipeline": m.pipeline, "checkpoint_id": m.checkpoint_id, "taken_at": m.taken_at, "bytes": m.bytes}
    return {"folder": str(found.at), "is_savepoint": True, "id": m.id, **shown}


def table(found: Sequence[Found]) -> Table:
    """The same for people."""
    shown = Table()
    for heading in ("taken (UTC)", "pipeline", "checkpoint", "bytes", "folder"):
        shown.add_column(heading, justify="right" if heading in {"checkpoint", "bytes"} else "left", overflow="fold")
    for each in found:
        m = each.manifest
        cells = (_time(m.taken_at), m.pipeline, m.checkpoint_id, f"{m.bytes:,}") if m else (each.why, "", "", "")
        shown.add_row(*map(out.line, (*cells, each.at)))
    return shown


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
