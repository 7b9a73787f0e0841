"""`eos stop`: ends a running pipeline cleanly, from anywhere that sees its head."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from eos.errors import SpecError
from spark_jobs.cli import beginning
from spark_jobs.cli.asking import NotRunningError, ask_and_wait
from spark_jobs.cli.kept import facts_of, lines_of
from spark_jobs.cli.logs import log_to_stderr
from spark_jobs.cli.options import AsJson, Debug, SpecPath, Timeout
from spark_jobs.cli.output import out
from spark_jobs.observe.run_lock import running
from spark_jobs.operations.deletion import Deleted, delete
from spark_jobs.savepoints.take import take

Now = Annotated[bool, typer.Option("--now", help="Abort the running checkpoint instead of finishing it.")]
Delete = Annotated[
    bool, typer.Option("--delete", help="Then delete its checkpoints, positions and state, to retire the pipeline.")
]


Keep = Annotated[bool, typer.Option("--savepoint", help="Write a savepoint after the stop.")]
Into = Annotated[
    Path | None,
    typer.Argument(
        metavar="[DIR]", show_default=False, help="Folder for the savepoint; default: at the checkpoint location."
    ),
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
    """Stop a running pipeline: it finishes its checkpoint, commits it in every sink, and ends.

    Nothing is left prepared. With --now the checkpoint is aborted, and the next start re-reads its records. Checkpoints
    that an absent sink has not committed stay decided, and the next start commits them.

    The request is stored beside the pipeline's head, so the process may run on any machine that sees the same head. The
    default timeout is 10 minutes.

    With --savepoint [DIR] a savepoint of the last checkpoint is written, as by `eos savepoint`. Sinks with a backlog
    must catch up first.

    The checkpoint location is kept, so the next start continues. With --delete it is deleted, also if the pipeline does
    not run: the next start begins at `starting_offsets`, and writes records that the sinks already hold a second time.
    Rows in the sinks stay, and prepared transactions are rolled back. The deletion is refused while a decided
    checkpoint is not committed. Rows that a sink lost by going back in time are named, with their offsets. If head is
    in a database, the pipeline may run on another machine: it counts as stopped if it does not answer within --timeout.

    Exit code: 0 if it has stopped; 1 if it does not run, ended with an error, or did not stop in time; 2 if the spec is
    wrong.

    Examples:

        eos stop orders.yaml

        eos stop orders.yaml --now --timeout 1min

        eos stop orders.yaml --savepoint /backup/orders

        eos stop orders.yaml --delete
    """
    if into is not None and not savepoint:
        raise SpecError(f"{into} needs --savepoint", remedy="it is where --savepoint writes")
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
        return "The pipeline never ran here: there is nothing to delete."
    return f"Its checkpoints up to {deleted.completed} are deleted, and the next start begins at starting_offsets."
