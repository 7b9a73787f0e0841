"""`eos savepoint`: writes, lists, verifies and deletes savepoints."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from eos.errors import SpecError
from spark_jobs.cli.beginning import given_up, given_up_facts
from spark_jobs.cli.kept import facts_in, facts_of, lines_in, lines_of, listed, table
from spark_jobs.cli.logs import log_to_stderr
from spark_jobs.cli.options import AsJson, Debug, SpecPath
from spark_jobs.cli.output import out
from spark_jobs.cli.transfers import shown_transfers
from spark_jobs.query.spark_log import local_folder
from spark_jobs.savepoints.job import NO_SESSION
from spark_jobs.savepoints.place import Savepoint
from spark_jobs.savepoints.places import default_place, is_url, parse, place_at, savepoint_at
from spark_jobs.savepoints.take import take


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
    help="""Write a savepoint: `eos savepoint SPEC [DIR|URL]`.

    A savepoint is a folder with everything that a pipeline needs to start there: positions, the state of its
    steps, its identity. It may be copied anywhere, and may be in an object store.
    `eos run SPEC --from-savepoint DIR` starts from it; a job of your own starts after `eos savepoint restore`.
    A running pipeline continues. Exit code: 0; 1 if it cannot be written, is damaged or is not a savepoint; 2 if
    the spec or the command line is wrong.

    Examples:

        eos savepoint orders.yaml

        eos savepoint orders.yaml /backup/orders

        eos savepoint orders.yaml s3://bucket/backup

        eos savepoint list orders.yaml

        eos savepoint inspect /backup/orders/savepoint-k2x9qa-41-0f3c9d

        eos savepoint dispose /backup/orders/savepoint-k2x9qa-41-0f3c9d

        eos savepoint restore sink.yaml /backup/orders/savepoint-k2x9qa-41-0f3c9d --checkpoint ./spark
    """,
)

Into = Annotated[
    str | None,
    typer.Argument(metavar="DIR|URL", show_default=False, help="Where a new folder for the savepoint is created."),
]
One = Annotated[
    str, typer.Argument(metavar="DIR|URL", show_default=False, help="The savepoint's own folder, or its URL.")
]
OptionsOf = Annotated[
    Path | None,
    typer.Option(
        "--spec", metavar="SPEC", show_default=False, help="With a URL: use the options of this spec's object store."
    ),
]
Checkpoint = Annotated[
    str,
    typer.Option(
        metavar="FOLDER", show_default=False, help="The `checkpointLocation` of the job from now on: an empty folder."
    ),
]
Duplicates = Annotated[
    bool, typer.Option("--accept-duplicates", help="Write the rows after the savepoint a second time.")
]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over", help="Take over sinks claimed by another incarnation of the pipeline, and end the current one."
    ),
]


@savepoint.command("take")
def take_one(spec: SpecPath, into: Into = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """Write a savepoint of the newest checkpoint that is committed in every sink. `eos savepoint SPEC` does the same.

    The pipeline may run and continues. If the pipeline was killed before Spark marked its newest checkpoint as done,
    the savepoint holds the previous checkpoint, and the command reports it.

    Without DIR or URL it is written to `savepoints` at the checkpoint location. Name another place if that location may
    be lost. An interrupted command leaves nothing that could be used as a savepoint. For a URL the options of the
    spec's object store of the same kind are used.

    Exit code: 0; 1 if there is no checkpoint, or the place cannot be written; 2 if the spec is wrong.

    Examples:

        eos savepoint take orders.yaml

        eos savepoint take orders.yaml /backup/orders --json

        eos savepoint take orders.yaml s3://bucket/backup
    """
    loaded = out.load(spec)
    at = parse(into, loaded) if into is not None else None
    with shown_transfers():
        taken = take(loaded, at)
    if as_json:
        out.facts({"ok": True, **facts_of(taken)})
    else:
        out.show(*lines_of(taken))


@savepoint.command("list")
def show(
    place: Annotated[
        str,
        typer.Argument(metavar="SPEC|DIR|URL", show_default=False, help="A spec, or a place with savepoints."),
    ],
    options_of: OptionsOf = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show the savepoints of a folder or URL, newest first. With a spec, show those at its checkpoint location.

    Reads only the manifest of each; `eos savepoint inspect` verifies every byte.

    Exit code: 0, also if there are none; 1 if the place cannot be read; 2 if the spec is wrong.

    Examples:

        eos savepoint list orders.yaml

        eos savepoint list /backup/orders --json

        eos savepoint list s3://bucket/backup
    """
    if is_url(place) or Path(place).is_dir():
        at = parse(place, out.load(options_of) if options_of is not None else None)
    elif not Path(place).exists():
        raise SpecError(f"{place} does not exist", remedy="give a spec, or a folder or URL with savepoints")
    else:
        at = default_place(out.load(Path(place)))
    found = place_at(at).found()
    if as_json:
        out.facts({"ok": True, "folder": str(at), "savepoints": [listed(each) for each in found]})
    elif found:
        out.show(table(found))
    else:
        out.show(out.text(f"There are no savepoints in {at}."))


@savepoint.command()
def inspect(one: One, options_of: OptionsOf = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """Show the contents of a savepoint and verify every byte.

    Exit code: 0; 1 if it is damaged, has a newer format, or is not a savepoint; 2 if the command line is wrong.

    Examples:

        eos savepoint inspect /backup/orders/savepoint-k2x9qa-41-0f3c9d

        eos savepoint inspect /backup/orders/savepoint-k2x9qa-41-0f3c9d --json

        eos savepoint inspect s3://bucket/backup/savepoint-k2x9qa-41-0f3c9d5e7a1b2c4d --spec orders.yaml
    """
    savepoint = _open(one, options_of)
    manifest = savepoint.manifest()
    with shown_transfers():
        damage = savepoint.damage(manifest)
    if as_json:
        out.facts({"ok": not damage, **facts_in(savepoint, manifest), "damage": damage})
    else:
        out.show(*lines_in(savepoint, manifest), *(out.line(f"DAMAGED  {each}", "bold red") for each in damage))
    if damage:
        raise typer.Exit(1)


@savepoint.command("dispose")
def dispose_one(
    one: One,
    options_of: OptionsOf = None,
    unfinished: Annotated[
        bool,
        typer.Option(
            "--unfinished", help="With a URL: discard a savepoint whose writer has ended without finishing it."
        ),
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Delete one savepoint.

    Deletes only the files that its manifest names, and their folders. Refuses a place that is not a savepoint or
    contains other files. A pipeline no longer needs a savepoint after it has started from it.

    In an object store, a writer that was killed leaves files without a manifest, which `eos savepoint list` shows. With
    --unfinished they are deleted. If the writer still runs, it is refused and reports it.

    Exit code: 0; 1 if it was refused or could not be deleted; 2 if the command line is wrong.

    Examples:

        eos savepoint dispose /backup/orders/savepoint-k2x9qa-41-0f3c9d

        eos savepoint dispose s3://bucket/backup/savepoint-k2x9qa-41-0f3c9d5e7a1b2c4d

        eos savepoint dispose s3://bucket/backup/savepoint-k2x9qa-42-5e7a1b2c4d0f3c9d --unfinished
    """
    savepoint = _open(one, options_of)
    if unfinished:
        savepoint.discard()
        facts: dict[str, object] = {}
        shown = f"Discarded {savepoint.at}, which was not finished."
    else:
        manifest = savepoint.dispose()
        facts = {"id": manifest.id, "bytes": manifest.bytes}
        shown = f"Deleted {savepoint.at}: checkpoint {manifest.checkpoint_id} of {manifest.pipeline}."
    if as_json:
        out.facts({"ok": True, "folder": str(savepoint.at), **facts})
    else:
        out.show(out.line(shown))


@savepoint.command()
def restore(
    spec: SpecPath,
    one: One,
    checkpoint: Checkpoint,
    accept_duplicates: Duplicates = False,
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Restore a job that writes by `ExactlyOnce` or `format("eos")` from a savepoint.

    Stop the job first. Afterwards start it with FOLDER as the `checkpointLocation` of its query. It continues with the
    offsets and the state of the savepoint. A job that still runs is fenced, and a start with the previous folder is
    refused. The sinks of the spec are compared with those of the savepoint; the code of the job is not.

    The command first reports the rows that the sinks already hold. It is refused if rows would be written twice, or
    sinks taken from another incarnation, until the option for that is given. After an interruption, repeat the command.

    Exit code: 0; 1 if it was refused or a service does not answer; 2 if the spec or the command line is wrong.

    Examples:

        eos savepoint restore sink.yaml /backup/orders/savepoint-k2x9qa-41-0f3c9d --checkpoint ./spark
    """
    loaded = out.load(spec)
    how = "give a folder on a local disk; a job without transformWithState may continue in a copy in the store"
    target = local_folder(checkpoint, NO_SESSION, how).absolute()
    log_to_stderr()
    from spark_jobs.cli.run import tell  # imports Spark, which takes a second: not for the other commands
    from spark_jobs.operations.from_savepoint import Allowed
    from spark_jobs.operations.job_restore import restore as restore_job

    allowed = Allowed(parse(one, loaded), duplicates=accept_duplicates, take_over=take_over)
    begun = restore_job(loaded, target, allowed, partial(tell, loaded, out.console(quiet=as_json)))
    if as_json:
        facts = {"pipeline": loaded.pipeline, "incarnation": begun.head.incarnation, "ended": begun.ended}
        abandoned = given_up_facts(begun.abandoned)
        out.facts(
            {"ok": True, "folder": str(target), "checkpoint_id": begun.head.completed, **facts, "abandoned": abandoned}
        )
    else:
        out.show(*given_up(begun.abandoned), out.text(f"Restored: start the job with checkpointLocation {target}."))


def _open(one: str, options_of: Path | None) -> Savepoint:
    return savepoint_at(parse(one, out.load(options_of) if options_of is not None else None))
