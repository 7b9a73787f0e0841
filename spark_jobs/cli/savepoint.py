"""`eos savepoint`: takes savepoints, and shows, checks and deletes them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from spark_jobs.cli.options import AsJson, Debug, SpecPath
from spark_jobs.cli.output import out
from spark_jobs.savepoint import manifest as manifests
from spark_jobs.savepoint.manifest import Manifest
from spark_jobs.savepoint.stored import Found, dispose, found_in
from spark_jobs.savepoint.take import Taken, default_folder, take
from twophase.codec import decode_head
from twophase.errors import HeadFormatError


class _TakesFirst(TyperGroup):
    """`eos savepoint SPEC` is `eos savepoint take SPEC`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["take", *args]
        return super().parse_args(ctx, args)


savepoint = typer.Typer(
    cls=_TakesFirst,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="""Keep a checkpoint, whole and by itself: `eos savepoint SPEC [DIR]`.

    A savepoint is a folder with everything that a pipeline needs to begin there: positions, the state of its steps, its
    identity. It may be copied anywhere. `eos run SPEC --from-savepoint DIR` begins from it. The pipeline may run
    meanwhile, and goes on. Exit code: 0; 1 if it cannot be taken, is damaged or is none; 2 if the spec or the command
    line is wrong.

    Examples:

        eos savepoint orders.yaml

        eos savepoint orders.yaml /backup/orders

        eos savepoint list orders.yaml

        eos savepoint inspect /backup/orders/savepoint-k2x9qa-41-0f3c9d

        eos savepoint dispose /backup/orders/savepoint-k2x9qa-41-0f3c9d
    """,
)

Into = Annotated[
    Path | None,
    typer.Argument(metavar="[DIR]", show_default=False, help="Folder to write it in, as a new folder of its own."),
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="The savepoint's own folder.")]


@savepoint.command("take")
def take_one(spec: SpecPath, into: Into = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """Take a savepoint of the newest checkpoint that is committed everywhere. `eos savepoint SPEC` does the same.

    The pipeline may run, and goes on meanwhile. Without DIR it is written to `savepoints` at the checkpoint location:
    if that may be lost, name a folder elsewhere. Killed on the way, it leaves nothing that passes for a savepoint.

    Exit code: 0; 1 if there is nothing to keep, or the folder cannot be written; 2 if the spec is wrong.

    Examples:

        eos savepoint take orders.yaml

        eos savepoint take orders.yaml /backup/orders --json
    """
    loaded = out.load(spec)
    taken = take(loaded, into.absolute() if into is not None else None)
    if as_json:
        out.facts({"ok": True, **facts_of(taken)})
    else:
        out.show(*lines_of(taken))


@savepoint.command("list")
def show(
    place: Annotated[
        Path, typer.Argument(metavar="SPEC|DIR", show_default=False, help="A spec, or a folder that has savepoints.")
    ],
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show the savepoints of a folder, the newest first; of a spec, those at its checkpoint location.

    Looks at each one's manifest only: `eos savepoint inspect` reads everything.

    Exit code: 0, also where there are none; 1 if the folder is not there; 2 if the spec is wrong.

    Examples:

        eos savepoint list orders.yaml

        eos savepoint list /backup/orders --json
    """
    folder = place if place.is_dir() else default_folder(out.load(place))
    found = found_in(folder) if place.is_dir() or folder.is_dir() else []
    if as_json:
        out.facts({"ok": True, "folder": str(folder), "savepoints": [_listed(each) for each in found]})
    elif found:
        out.show(_table(found))
    else:
        out.show(out.text(f"There are no savepoints in {folder}."))


@savepoint.command()
def inspect(folder: Folder, as_json: AsJson = False, debug: Debug = False) -> None:
    """Show what a savepoint holds, and whether every byte of it is right.

    Exit code: 0; 1 if it is damaged, of a newer format, or none; 2 if the command line is wrong.

    Examples:

        eos savepoint inspect /backup/orders/savepoint-k2x9qa-41-0f3c9d

        eos savepoint inspect /backup/orders/savepoint-k2x9qa-41-0f3c9d --json
    """
    manifest = manifests.read(folder)
    damage = manifests.damage(folder, manifest)
    facts = _facts(folder, manifest)
    if as_json:
        out.facts({"ok": not damage, **facts, "damage": damage})
    else:
        out.show(*_described(folder, manifest), *(out.text(f"DAMAGED  {each}", "bold red") for each in damage))
    if damage:
        raise typer.Exit(1)


@savepoint.command("dispose")
def dispose_one(
    folder: Folder,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Delete one savepoint.

    Deletes the files that its manifest names, and their folders, and nothing else; refuses a folder that is no
    savepoint, or that holds anything besides. No pipeline needs a savepoint that it has begun from.

    Exit code: 0; 1 if it was refused or could not be deleted; 2 if the command line is wrong.

    Examples:

        eos savepoint dispose /backup/orders/savepoint-k2x9qa-41-0f3c9d
    """
    manifest = dispose(folder)
    if as_json:
        out.facts({"ok": True, "folder": str(folder), "id": manifest.id, "bytes": manifest.bytes})
    else:
        out.show(out.text(f"Deleted {folder}: checkpoint {manifest.checkpoint_id} of {manifest.pipeline}."))


def facts_of(taken: Taken) -> dict[str, object]:
    """Of a savepoint that was taken just now."""
    m = taken.manifest
    return {
        "folder": str(taken.folder),
        "id": m.id,
        "pipeline": m.pipeline,
        "checkpoint_id": m.checkpoint_id,
        "bytes": m.bytes,
        "later": m.later,
    }


def lines_of(taken: Taken) -> Iterator[Text]:
    """The same for people."""
    m = taken.manifest
    yield out.text(f"Savepoint of {m.pipeline}, checkpoint {m.checkpoint_id}, {m.bytes:,} bytes:", "bold")
    yield out.text(f"  {taken.folder}")
    if m.later:
        count = "1 later checkpoint" if m.later == 1 else f"{m.later} later checkpoints"
        yield out.text(f"  It does not have {count}, not yet done everywhere when it was taken.")


def _facts(folder: Path, manifest: Manifest) -> dict[str, object]:
    plan = manifest.plan
    return {
        "folder": str(folder),
        "format": manifests.FORMAT,
        "id": manifest.id,
        "pipeline": manifest.pipeline,
        "incarnation": manifest.incarnation,
        "checkpoint_id": manifest.checkpoint_id,
        "decided_at": manifest.decided_at,
        "taken_at": manifest.taken_at,
        "later": manifest.later,
        "positions": _positions(folder),
        "operators": [{"step": o.step, "kind": o.kind, "state": o.state} for o in plan.operators] if plan else None,
        "described": {kind: dict(each) for kind, each in plan.described.items()} if plan else None,
        "spec": plan.spec if plan else None,
        "versions": dict(manifest.versions),
        "files": len(manifest.files),
        "bytes": manifest.bytes,
        "state_bytes": manifest.state_bytes,
    }


def _positions(folder: Path) -> dict[str, dict[str, int]] | None:
    """None: they cannot be read, which the damage tells."""
    try:
        head = decode_head((folder / manifests.HEAD).read_bytes())
    except (OSError, HeadFormatError):
        return None
    return {source: dict(splits) for source, splits in head.positions.items()}


def _described(folder: Path, manifest: Manifest) -> Iterator[Text]:
    yield out.text(f"{manifest.pipeline}: checkpoint {manifest.checkpoint_id}, id {manifest.id}", "bold")
    yield out.text(f"taken {_time(manifest.taken_at)} UTC, of incarnation {manifest.incarnation}")
    versions = ", ".join(f"{name} {version}" for name, version in sorted(manifest.versions.items()))
    yield out.text(f"format {manifests.FORMAT}, written by {versions}")
    size = f"{manifest.bytes:,} bytes in {len(manifest.files)} files, {manifest.state_bytes:,} of them state"
    yield out.text(size)
    for source, splits in (_positions(folder) or {}).items():
        yield out.text(f"source {source} goes on at {', '.join(f'{s}={n:,}' for s, n in sorted(splits.items()))}")
    for operator in manifest.plan.operators if manifest.plan else ():
        yield out.text(f"state of {operator.named}: {operator.state}")
    for name, sink in manifest.plan.described.get("sinks", {}).items() if manifest.plan else ():
        yield out.text(f"sink {name}: {', '.join(value for value in sink.values() if value)}")


def _listed(found: Found) -> dict[str, object]:
    m = found.manifest
    if m is None:
        return {"folder": str(found.folder), "is_savepoint": False, "why": found.why}
    shown = {"pipeline": m.pipeline, "checkpoint_id": m.checkpoint_id, "taken_at": m.taken_at, "bytes": m.bytes}
    return {"folder": str(found.folder), "is_savepoint": True, "id": m.id, **shown}


def _table(found: list[Found]) -> Table:
    table = Table()
    for heading in ("taken (UTC)", "pipeline", "checkpoint", "bytes", "folder"):
        table.add_column(heading, justify="right" if heading in {"checkpoint", "bytes"} else "left", overflow="fold")
    for each in found:
        m = each.manifest
        cells = (_time(m.taken_at), m.pipeline, m.checkpoint_id, f"{m.bytes:,}") if m else (each.why, "", "", "")
        table.add_row(*map(out.text, (*cells, each.folder)))
    return table


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
