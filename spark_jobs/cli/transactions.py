"""`eos transactions`: what sinks hold prepared, and ending it by hand."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from connectors.registry import build_sink
from eos.errors import IdentityError, SpecError
from spark_jobs.cli.in_doubt import chosen_of, in_doubt, in_order
from spark_jobs.cli.options import AsJson, Debug, SpecPath
from spark_jobs.cli.output import out
from spark_jobs.observe.head_reader import read_history
from spark_jobs.query.rebuilt_spark_log import spark_log
from spark_jobs.run.open_driver import open_driver
from twophase.in_doubt import InDoubtTransaction, Resolution
from twophase.values import CommitOutcome

transactions = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="""Show prepared transactions of the sinks, and resolve them by hand.

    Not needed if the pipeline is started again: a start resolves all of them. Exit code: 0; 1 if something was
    refused or failed; 2 if the spec or the command line is wrong.

    Examples:

        eos transactions list orders.yaml

        eos transactions settle orders.yaml
    """,
)

Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ID", show_default=False, help="Transactions to resolve; default: all that may be resolved."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Override the protocol. Rows are lost or duplicated.")]


@transactions.command("list")
def show(spec: SpecPath, as_json: AsJson = False, debug: Debug = False) -> None:
    """Show every prepared transaction and every waiting segment, and how the protocol resolves it.

    A transaction of a decided checkpoint is committed by the running driver or the next start. Any other transaction is
    rolled back by the next start. So normally no action is needed: the list shows which locks are held while a pipeline
    is down, and why. The command changes nothing.

    Exit code: 0; 1 if a sink or head cannot be queried; 2 if the spec is wrong.

    Examples:

        eos transactions list orders.yaml

        eos transactions list orders.yaml --json
    """
    loaded = out.load(spec)
    with in_doubt(loaded) as held:
        found = held.found
        if as_json:
            out.facts({"ok": True, "pipeline": loaded.pipeline, "transactions": [_facts(each) for each in found]})
        elif found:
            out.show(_table(found))
        else:
            out.show(out.text("No sink has prepared transactions."))


@transactions.command()
def commit(
    spec: SpecPath, ids: Ids = None, force: Force = False, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Commit decided transactions, as the next start would, for a pipeline that cannot be started now.

    Refuses undecided transactions. With --force it commits them too: their rows become visible although no checkpoint
    covers them, and are written a second time when their batch runs. `eos run` then refuses the sink until it is reset.

    Exit code: 0; 1 if something was refused or failed; 2 if the spec or an id is wrong.

    Examples:

        eos transactions commit orders.yaml
    """
    loaded = out.load(spec)
    with in_doubt(loaded) as held:
        chosen = chosen_of(held.found, ids, Resolution.COMMIT, force=force)
        for sink, checkpoint_id, committables in in_order(held, chosen):
            outcomes = held.committers[sink].commit(checkpoint_id, committables)
            if not {*outcomes} <= {CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED}:
                message = f"checkpoint {checkpoint_id} at sink {sink}: {', '.join(each.value for each in outcomes)}"
                remedy = "`eos transactions list` shows the current transactions, and `eos repair` the loss"
                raise IdentityError(message, remedy=remedy)
    _done("committed", chosen, as_json=as_json)


@transactions.command()
def rollback(
    spec: SpecPath, ids: Ids = None, force: Force = False, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Roll back transactions that no decision covers or will cover, as the next start would.

    Refuses decided transactions, and those that a running driver may be about to decide: see `eos transactions settle`.
    With --force it rolls them back too: decided rows are lost then, and the next start reports it and stops.

    Exit code: 0; 1 if something was refused or failed; 2 if the spec or an id is wrong.

    Examples:

        eos transactions rollback orders.yaml
    """
    loaded = out.load(spec)
    with in_doubt(loaded) as held:
        chosen = chosen_of(held.found, ids, Resolution.ROLL_BACK, force=force)
        for each in chosen:
            held.committers[each.sink].abort([each.prepared])
    _done("rolled back", chosen, as_json=as_json)


@transactions.command()
def settle(spec: SpecPath, as_json: AsJson = False, debug: Debug = False) -> None:
    """Resolve all transactions as the next start does, without starting: commit the decided ones, roll back the others.

    For a pipeline that stays down while its prepared transactions hold locks. A running driver is fenced and stops.
    Nothing is lost or duplicated, and the next `eos run` continues.

    Exit code: 0; 1 if it cannot be done, with the reason; 2 if the spec is wrong.

    Examples:

        eos transactions settle orders.yaml
    """
    loaded = out.load(spec)
    if not loaded.sources:
        message = f"{spec} is for a job of your own, and does not know Spark's checkpoint location"
        raise SpecError(message, remedy="start the job: its start does the same")
    with in_doubt(loaded) as held:
        pass
    if read_history(loaded) is None:
        _done("settled", [], as_json=as_json)
        return
    sinks = [build_sink(loaded, entry) for entry in loaded.outputs]
    log = spark_log(loaded)
    with open_driver(loaded, sinks, log, session=f"{secrets.token_hex(8)}.0") as driver:
        driver.start()
    _done("settled", [each for each in held.found if each.resolution is not Resolution.FOREIGN], as_json=as_json)


def _done(what: str, chosen: Sequence[InDoubtTransaction], *, as_json: bool) -> None:
    if as_json:
        out.facts({"ok": True, what.replace(" ", "_"): [each.id for each in chosen]})
    else:
        out.show(out.text(f"{what}: {len(chosen)}"), *(out.text(f"  {each.sink}: {each.id}") for each in chosen))


def _facts(each: InDoubtTransaction) -> dict[str, object]:
    transaction = each.prepared.transaction
    return {
        "id": each.id,
        "sink": each.sink,
        "checkpoint_id": each.checkpoint_id if transaction else None,
        "epoch": transaction.scope.epoch if transaction else None,
        "task": transaction.task if transaction else None,
        "rows": each.committable.rows if each.committable else None,
        "decided_at": each.decided_at,
        "then": each.resolution.value,
        "why": each.why,
    }


def _table(found: Sequence[InDoubtTransaction]) -> Table:
    table = Table()
    for heading in ("sink", "checkpoint", "epoch", "rows", "decided", "then", "why", "id"):
        table.add_column(heading, overflow="fold")
    for each in found:
        facts = _facts(each)
        age = "" if each.decided_at is None else f"{time.time() - each.decided_at:.0f} s ago"
        shown = [facts["checkpoint_id"], facts["epoch"], facts["rows"]]
        numbers = ["?" if value is None else str(value) for value in shown]
        table.add_row(*map(out.text, (each.sink, *numbers, age, each.resolution.value, each.why, each.id)))
    return table
