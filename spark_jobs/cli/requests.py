"""Requests to a running pipeline: `eos checkpoint`, `eos stop`, and the wait for an answer."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Final

import typer
from rich.console import Console

from connectors.registry import open_requests
from connectors.spec import Spec
from eos.errors import ConnectorError, SpecError
from spark_jobs.cli import beginning
from spark_jobs.cli.kept import facts_of, lines_of
from spark_jobs.cli.logs import log_to_stderr
from spark_jobs.cli.options import AsJson, Debug, SpecPath, Timeout
from spark_jobs.cli.output import out
from spark_jobs.cli.transfers import shown_transfers
from spark_jobs.observe.run_lock import running
from spark_jobs.operations.deletion import Deleted, delete
from spark_jobs.savepoints.places import default_place, parse
from spark_jobs.savepoints.take import take
from twophase.requests import Answer, Channel, Request

_POLL_S: Final = 0.1
Now = Annotated[bool, typer.Option("--now", help="Abort the running checkpoint instead of finishing it.")]
Delete = Annotated[
    bool, typer.Option("--delete", help="Then delete its checkpoints, positions and state, to retire the pipeline.")
]


Keep = Annotated[bool, typer.Option("--savepoint", help="Write a savepoint after the stop.")]
Into = Annotated[
    str | None,
    typer.Argument(
        metavar="DIR|URL", show_default=False, help="Place of the savepoint; default: at the checkpoint location."
    ),
]


class NotRunningError(ConnectorError):
    """The pipeline does not run, or its process does not answer."""

    code = "EOS-NOT-RUNNING"


class RefusedError(ConnectorError):
    """The running pipeline refused the request."""

    code = "EOS-REFUSED"


def ask_and_wait(spec: Spec, kind: str, arguments: Mapping[str, str], timeout_s: float, doing: str) -> Answer:
    """Block until what is asked is done. `doing`: shown meanwhile on a terminal.

    Raises RefusedError where it is not done; NotRunningError where nobody runs the pipeline, its process has ended
    without an answer, or none has come in time: the request is withdrawn then, and what was begun on it may still go
    on; HeadError.
    """
    if not spec.sources:
        message = f"the spec of {spec.pipeline} names no sources, and its job takes no requests"
        raise NotRunningError(message, remedy="stop its query in the job; `eos savepoint` needs no request")
    known = running(spec)
    if known is None and not spec.checkpoint.is_shared:
        message = f"{spec.pipeline} does not run: no process holds {spec.checkpoint.folder}"
        raise NotRunningError(message, remedy="start it with `eos run`; `eos status` shows its history")
    with open_requests(spec) as channel, Console(stderr=True).status(doing):
        request = channel.ask(kind, arguments, asked_by=asker(), patience_s=timeout_s)
        answer = _wait(spec, channel, request, looks=known is not None)
    if answer is None:
        message = f"{spec.pipeline} has not answered within {timeout_s:g} s; the request is withdrawn"
        remedy = "`eos status` shows whether it runs; wait longer with --timeout"
        raise NotRunningError(message, remedy=remedy)
    if not answer.ok:
        raise RefusedError(answer.message, remedy=answer.remedy)
    return answer


def _wait(spec: Spec, channel: Channel, request: Request, *, looks: bool) -> Answer | None:
    """None: out of time. `looks`: whoever runs it is on this machine, so that its end can be seen."""
    try:
        while time.time() < request.expires_at:
            lives = not looks or running(spec) is not None
            answer = channel.answer_of(request)  # after the look: it answers before it ends
            if answer is not None:
                return answer
            if not lives:
                message = f"the process that ran {spec.pipeline} ended without an answer"
                raise NotRunningError(message, remedy="`eos status` shows what is decided; start the pipeline again")
            time.sleep(_POLL_S)
    except BaseException:
        channel.withdraw(request)
        raise
    return channel.withdraw(request)


def asker() -> str:
    """Return the user and host of this command, for the history."""
    name = "a user without a name"
    with suppress(KeyError, OSError):  # a user without a name
        name = getpass.getuser()
    return f"{name} at {socket.gethostname()}"


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

    With --savepoint [DIR|URL] a savepoint of the last checkpoint is written, as by `eos savepoint`. Sinks with a
    backlog must catch up first.

    The checkpoint location is kept, so the next start continues. With --delete it is deleted, also if the pipeline does
    not run: the next start begins at `starting_offsets`, and writes records that the sinks already hold a second time.
    Rows in the sinks stay, and prepared transactions are rolled back. The deletion is refused while a decided
    checkpoint is not committed. Rows that a sink lost by going back in time are named, with their offsets. If head is
    in a database, an object store or HDFS, the pipeline may run on another machine: it counts as stopped if it does not
    answer within --timeout.

    Exit code: 0 if it has stopped; 1 if it does not run, ended with an error, or did not stop in time; 2 if the spec is
    wrong.

    Examples:

        eos stop orders.yaml

        eos stop orders.yaml --now --timeout 1min

        eos stop orders.yaml --savepoint /backup/orders

        eos stop orders.yaml --delete
    """
    if into is not None and not savepoint:
        raise SpecError("DIR|URL needs --savepoint", remedy="it is where --savepoint writes")
    loaded = out.load(spec)
    at = parse(into, loaded) if into is not None else default_place(loaded)
    facts: dict[str, object] = {}
    is_seen = running(loaded) is not None
    if not delete_all or is_seen or loaded.checkpoint.is_shared:
        arguments = {"now": "true"} if now else {}
        try:
            facts |= ask_and_wait(loaded, "stop", arguments, timeout, f"stopping {loaded.pipeline}").facts
        except NotRunningError:
            if is_seen or not delete_all:
                raise  # else nobody runs it anywhere, and it can be deleted
    said = [out.text(f"{loaded.pipeline} has stopped{_up_to(facts)}.")]
    if savepoint:
        with shown_transfers():
            taken = take(loaded, at)
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


def checkpoint(spec: SpecPath, timeout: Timeout = 600.0, as_json: AsJson = False, debug: Debug = False) -> None:
    """Trigger a checkpoint and wait until it is committed in every sink.

    The available records become visible without waiting for `checkpoint.interval`. With `max_records_per_checkpoint`,
    one checkpoint takes at most that many. If there is nothing to read, the command returns immediately.

    The default timeout is 10 minutes. The checkpoint continues after a timeout.

    Exit code: 0 if it is committed, or there was nothing to read; 1 if the pipeline does not run, ended, or has not
    committed it in time; 2 if the spec is wrong.

    Examples:

        eos checkpoint orders.yaml

        eos checkpoint orders.yaml --timeout 30s --json
    """
    loaded = out.load(spec)
    answer = ask_and_wait(loaded, "checkpoint", {}, timeout, f"a checkpoint of {loaded.pipeline}")
    if as_json:
        out.facts({"ok": True, "pipeline": loaded.pipeline, **answer.facts})
        return
    records, rows = answer.facts["records"], answer.facts["rows"]
    counts = f": {records:,} records, {rows:,} rows" if answer.facts["checkpoint_id"] is not None else ""
    out.show(out.text(f"{loaded.pipeline}: {answer.message}{counts}."))
