"""`eos stop`: ends a running pipeline cleanly, from anywhere that sees its head."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.cli import beginning
from spark_jobs.cli.asking import NotRunningError, ask_and_wait
from spark_jobs.cli.kept import facts_of, lines_of
from spark_jobs.cli.logs import log_to_stderr
from spark_jobs.cli.options import AsJson, Debug, SpecPath, Timeout
from spark_jobs.cli.output import out
from spark_jobs.observe.run_lock import running
from spark_jobs.operations.deletion import Deleted, delete
from spark_jobs.savepoints.take import take
from twophase.errors import SpecError

Now = Annotated[bool, typer.Option("--now", help="Abort the running checkpoint instead of finishing it.")]
Delete = Annotated[
    bool, typer.Option("--delete", help="Then delete its checkpoints, positions and state: nobody is to go on with it.")
]


Keep = Annotated[bool, typer.Option("--savepoint", help="Take a savepoint when it has stopped.")]
Into = Annotated[
    Path | None,
    typer.Argument(metavar="[DIR]", show_default=False, help="Folder for the savepoint; without it, at the location."),
]


def stop(
    spec: SpecPath,
    into: Into = None,
    now: Now = False,
    savepoint: Keep = False,
    delete_all: Delete = False,
    timeout: Timeout = 600.0,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Stop a running pipeline: it finishes its checkpoint, commits it everywhere, and ends.

    Nothing is left prepared either way; with --now the records of the running checkpoint are read again by the next
    start. What a sink that is away has not committed stays decided, and the next start commits it.

    The pipeline hears of it through its head: the process may run anywhere that sees the same one. Without --timeout
    this waits for 10 minutes.

    With --savepoint [DIR] everything up to its last checkpoint is kept, as by `eos savepoint`; sinks that are behind
    have to catch up first.

    What it leaves at its checkpoint location is kept, so that the next start goes on. With --delete it is deleted, of a
    pipeline that does not run as well: the next start begins at `starting_offsets`, and what the sinks hold of that is
    written twice. Rows stay, what was only prepared is rolled back. Refused while something decided is not committed.
    Rows that are gone in a sink which went back in time are named, with their offsets.
    Where head is in a database somebody elsewhere may run it: who has not answered when --timeout is over does not.

    Exit code: 0 when it has stopped; 1 if it does not run, ended with an error, or did not stop in time; 2 if the spec
    is wrong.

    Examples:

        eos stop orders.yaml

        eos stop orders.yaml --now --timeout 1min

        eos stop orders.yaml --savepoint /backup/orders

        eos stop orders.yaml --delete
    """
    if into is not None and not savepoint:
        raise SpecError(f"what is {into} for?", remedy="it is where --savepoint writes")
    loaded = out.load(spec)
    facts: dict[str, object] = {}
    is_seen = running(loaded) is not None
    if not delete_all or is_seen or loaded.checkpoint.head is not None:
        arguments = {"now": "true"} if now else {}
        try:
            facts |= ask_and_wait(loaded, "stop", arguments, timeout, f"stopping {loaded.pipeline}").facts
        except NotRunningError:
            if is_seen or not delete_all:
                raise  # else nobody runs it anywhere, and it can be deleted
    said = [out.text(f"{loaded.pipeline} has stopped{_up_to(facts)}.")]
    if savepoint:
        taken = take(loaded, into.absolute() if into is not None else None)
        facts["savepoint"] = facts_of(taken)
        said += lines_of(taken)
    if delete_all:
        log_to_stderr()
        deleted = delete(loaded)
        abandoned = deleted.abandoned if deleted is not None else ()
        facts |= {"deleted": deleted is not None, "abandoned": beginning.given_up_facts(abandoned)}
        said += [*beginning.given_up(abandoned), out.text(_told(deleted))]
    if as_json:
        out.facts({"ok": True, "pipeline": loaded.pipeline, **facts})
    else:
        out.show(*said)


def _up_to(facts: Mapping[str, object]) -> str:
    committed = facts.get("committed", -1)
    return f"; committed up to checkpoint {committed}" if committed != -1 else ""


def _told(deleted: Deleted | None) -> str:
    if deleted is None:
        return "It never ran here: there is nothing to delete."
    return f"Its checkpoints up to {deleted.completed} are deleted, and the next start begins at starting_offsets."
