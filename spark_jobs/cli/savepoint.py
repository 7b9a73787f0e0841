"""`eos savepoint`: writes, lists, verifies and deletes savepoints."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from spark_jobs.cli.beginning import given_up, given_up_facts
from spark_jobs.cli.kept import facts_in, facts_of, lines_in, lines_of, listed, local_folder, table
from spark_jobs.cli.logs import log_to_stderr
from spark_jobs.cli.options import AsJson, Debug, SpecPath
from spark_jobs.cli.output import out
from spark_jobs.query.spark_log import local_folder as spark_folder
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.stored import dispose, found_in
from spark_jobs.savepoints.take import default_folder, take


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
    help="""Write a savepoint: `eos savepoint SPEC [DIR]`.

    A savepoint is a folder with everything that a pipeline needs to start there: positions, the state of its
    steps, its identity. It may be copied anywhere. `eos run SPEC --from-savepoint DIR` starts from it; a job of
    your own starts after `eos savepoint restore`. A running pipeline continues. Exit code: 0; 1 if it cannot be
    written, is damaged or is not a savepoint; 2 if the spec or the command line is wrong.

    Examples:

        eos savepoint orders.yaml

        eos savepoint orders.yaml /backup/orders

        eos savepoint list orders.yaml

        eos savepoint inspect /backup/orders/savepoint-k2x9qa-41-0f3c9d

        eos savepoint dispose /backup/orders/savepoint-k2x9qa-41-0f3c9d

        eos savepoint restore sink.yaml /backup/orders/savepoint-k2x9qa-41-0f3c9d --checkpoint ./spark
    """,
)

Into = Annotated[
    Path | None,
    typer.Argument(
        metavar="DIR", show_default=False, help="Folder in which a new folder for the savepoint is created."
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
Folder = Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="The savepoint's own folder.")]


@savepoint.command("take")
def take_one(spec: SpecPath, into: Into = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """Write a savepoint of the newest checkpoint that is committed in every sink. `eos savepoint SPEC` does the same.

    The pipeline may run and continues. If the pipeline was killed before Spark marked its newest checkpoint as done,
    the savepoint holds the previous checkpoint, and the command reports it.

    Without DIR it is written to `savepoints` at the checkpoint location. Name another folder if that location may be
    lost. An interrupted command leaves no folder that could be used as a savepoint.

    Exit code: 0; 1 if there is no checkpoint, or the folder cannot be written; 2 if the spec is wrong.

    Examples:

        eos savepoint take orders.yaml

        eos savepoint take orders.yaml /backup/orders --json
    """
    loaded = out.load(spec)
    taken = take(loaded, local_folder(into) if into is not None else None)
    if as_json:
        out.facts({"ok": True, **facts_of(taken)})
    else:
        out.show(*lines_of(taken))


@savepoint.command("list")
def show(
    place: Annotated[
        Path, typer.Argument(metavar="SPEC|DIR", show_default=False, help="A spec, or a folder with savepoints.")
    ],
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show the savepoints of a folder, newest first. With a spec, show those at its checkpoint location.

    Reads only the manifest of each; `eos savepoint inspect` verifies every byte.

    Exit code: 0, also if there are none; 1 if the folder does not exist; 2 if the spec is wrong.

    Examples:

        eos savepoint list orders.yaml

        eos savepoint list /backup/orders --json
    """
    folder = place if place.is_dir() else default_folder(out.load(place))
    found = found_in(folder) if place.is_dir() or folder.is_dir() else []
    if as_json:
        out.facts({"ok": True, "folder": str(folder), "savepoints": [listed(each) for each in found]})
    elif found:
        out.show(table(found))
    else:
        out.show(out.text(f"There are no savepoints in {folder}."))


@savepoint.command()
def inspect(folder: Folder, as_json: AsJson = False, debug: Debug = False) -> None:
    """Show the contents of a savepoint and verify every byte.

    Exit code: 0; 1 if it is damaged, has a newer format, or is not a savepoint; 2 if the command line is wrong.

    Examples:

        eos savepoint inspect /backup/orders/savepoint-k2x9qa-41-0f3c9d

        eos savepoint inspect /backup/orders/savepoint-k2x9qa-41-0f3c9d --json
    """
    manifest = manifests.read(folder)
    damage = manifests.damage(folder, manifest)
    facts = facts_in(folder, manifest)
    if as_json:
        out.facts({"ok": not damage, **facts, "damage": damage})
    else:
        out.show(*lines_in(folder, manifest), *(out.text(f"DAMAGED  {each}", "bold red") for each in damage))
    if damage:
        raise typer.Exit(1)


@savepoint.command("dispose")
def dispose_one(
    folder: Folder,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Delete one savepoint.

    Deletes only the files that its manifest names, and their folders. Refuses a folder that is not a savepoint or
    contains other files. A pipeline no longer needs a savepoint after it has started from it.

    Exit code: 0; 1 if it was refused or could not be deleted; 2 if the command line is wrong.

    Examples:

        eos savepoint dispose /backup/orders/savepoint-k2x9qa-41-0f3c9d
    """
    manifest = dispose(folder)
    if as_json:
        out.facts({"ok": True, "folder": str(folder), "id": manifest.id, "bytes": manifest.bytes})
    else:
        out.show(out.text(f"Deleted {folder}: checkpoint {manifest.checkpoint_id} of {manifest.pipeline}."))


@savepoint.command()
def restore(
    spec: SpecPath,
    folder: Folder,
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
    loaded, target = out.load(spec), spark_folder(checkpoint).absolute()
    log_to_stderr()
    from spark_jobs.cli.run import tell  # imports Spark, which takes a second: not for the other commands
    from spark_jobs.operations.from_savepoint import Allowed
    from spark_jobs.operations.job_restore import restore as restore_job

    allowed = Allowed(local_folder(folder), duplicates=accept_duplicates, take_over=take_over)
    begun = restore_job(loaded, target, allowed, partial(tell, loaded, out.console(quiet=as_json)))
    if as_json:
        facts = {"pipeline": loaded.pipeline, "incarnation": begun.head.incarnation, "ended": begun.ended}
        abandoned = given_up_facts(begun.abandoned)
        out.facts(
            {"ok": True, "folder": str(target), "checkpoint_id": begun.head.completed, **facts, "abandoned": abandoned}
        )
    else:
        out.show(*given_up(begun.abandoned), out.text(f"Restored: start the job with checkpointLocation {target}."))
