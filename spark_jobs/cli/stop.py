"""`eos stop`: ends a running pipeline cleanly, from anywhere that sees its head."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.cli.asking import ask_and_wait
from spark_jobs.cli.kept import facts_of, lines_of
from spark_jobs.cli.options import AsJson, Debug, SpecPath, Timeout
from spark_jobs.cli.output import out
from spark_jobs.savepoint.take import take
from twophase.errors import SpecError

Now = Annotated[bool, typer.Option("--now", help="Abort the running checkpoint instead of finishing it.")]


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

    Exit code: 0 when it has stopped; 1 if it does not run, ended with an error, or did not stop in time; 2 if the spec
    is wrong.

    Examples:

        eos stop orders.yaml

        eos stop orders.yaml --now --timeout 1min

        eos stop orders.yaml --savepoint /backup/orders
    """
    if into is not None and not savepoint:
        raise SpecError(f"what is {into} for?", remedy="it is where --savepoint writes")
    loaded = out.load(spec)
    arguments = {"now": "true"} if now else {}
    answer = ask_and_wait(loaded, "stop", arguments, timeout, f"stopping {loaded.pipeline}")
    taken = take(loaded, into.absolute() if into is not None else None) if savepoint else None
    if as_json:
        kept = {"savepoint": facts_of(taken)} if taken is not None else {}
        out.facts({"ok": True, "pipeline": loaded.pipeline, **answer.facts, **kept})
        return
    committed = answer.facts.get("committed", -1)
    upto = f"; committed up to checkpoint {committed}" if committed >= 0 else ""
    out.show(out.text(f"{loaded.pipeline} has stopped{upto}."), *(lines_of(taken) if taken is not None else ()))
