"""`eos repair`: rewrites the lost rows of a completed checkpoint (R7)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from connectors.registry import build_committer, build_sink
from connectors.spec import Spec
from eos.errors import IdentityError, SpecError
from spark_jobs.cli.logs import log_to_stderr
from spark_jobs.cli.options import AsJson, Debug, SpecPath
from spark_jobs.cli.output import out
from spark_jobs.cli.requests import asker
from spark_jobs.observe.head_reader import read_history
from spark_jobs.observe.history.model import Event
from spark_jobs.observe.history.recorder import tell
from spark_jobs.query.rebuilt_spark_log import spark_log
from spark_jobs.run.open_driver import open_driver
from twophase.head_value import HeadValue
from twophase.participants import Committer
from twophase.repair import Loss, Repaired
from twophase.status import Status
from twophase.values import CheckpointRecord, Committable


def repair(
    spec: SpecPath,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without this option, only report the loss.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Rewrite the rows that a completed checkpoint has lost, each once, and commit them.

    Use it if a start reports "lost": a prepared transaction was rolled back by hand, or a file of the log is missing or
    damaged. Use it also if a start reports that a sink "went back in time": its backup was restored, or a lagging
    replica took over. The command reports the loss: checkpoint, sink, transactions, rows, offsets. With `--yes` it
    re-reads the checkpoint's offsets with the same steps and tasks, writes only the rows of the lost transactions, and
    commits them. Then `eos run` continues. If the missing data can be restored instead (a file from a backup), do that.

    Nothing is written if the rows could differ: if any task of the checkpoint gets another number of rows, if a step is
    not deterministic, or if the source no longer has the records; their offsets are reported. So use the spec, the
    steps and the `spark.master` of that checkpoint. The command cannot detect a step that returns other values in the
    same number of rows. A stateful pipeline is checked: it runs on a copy of its earlier state, while Spark still has
    it, and its rows must have the same digest.

    With a `dead_letter`, bad records and refused rows are omitted as before, and each is one dead letter. This is
    refused if the refused rows of a sink are unknown.

    Stop the pipeline first: a running driver is fenced. After a kill, run the command again.

    Exit code: 0, also if nothing is lost; 1 if it was refused or failed (it can be run again); 2 if the spec is wrong.

    Examples:

        eos repair orders.yaml

        eos repair orders.yaml --yes

        eos repair orders.yaml --yes --json
    """
    loaded = out.load(spec)
    if not loaded.sources:
        message = f"{spec} is for a job of your own, and does not know the sources of its checkpoints"
        raise SpecError(message, remedy="restore the lost data, or give it up with `eos reset --abandon-lost`")
    log_to_stderr()
    history, losses = _found(loaded)
    for loss in losses if not as_json else ():
        out.show(*_lines(loss), _table(loss))
    repaired = _repair(loaded, history, losses) if yes and history is not None and losses else None
    if repaired is not None:
        tell(loaded, *map(_told, repaired.losses))
    if as_json:
        told = losses if repaired is None else repaired.losses
        done = repaired is not None
        out.facts({"ok": True, "pipeline": loaded.pipeline, "done": done, "losses": [_facts(each) for each in told]})
    elif not losses:
        out.show(out.text("Nothing is lost: there is nothing to repair."))
    elif repaired is None:
        out.show(out.text("Nothing was changed. Add --yes to rewrite these rows.", "bold"))
    elif not repaired.losses:
        out.show(out.text("Done: the missing data was restored in the meantime, and is committed.", "bold"))
    else:
        for each in repaired.losses:
            said = f"Done: {each.rows:,} rows of checkpoint {each.record.checkpoint_id} were rewritten."
            out.show(out.text(said, "bold"))
        out.show(out.text("`eos run` continues."))


def _told(loss: Loss) -> Event:
    """For the history."""
    number = loss.record.checkpoint_id
    message = f"repair, by {asker()}: {loss.rows:,} lost rows of checkpoint {number} were rewritten"
    return Event(time.time(), "repair", f"{message} in {', '.join(loss.lost)}", checkpoint_id=number)


def _found(spec: Spec) -> tuple[Status | None, list[Loss]]:
    """What is lost as it looks now, asking every sink, by checkpoint. Changes nothing.

    A pipeline that runs may commit and prune meanwhile: then head tells. Of what head calls committed only a sink that
    went back in time can have lost anything; it counts less.

    Raises IdentityError where the repair would meet a checkpoint of a sink that the spec does not name.
    """
    history = read_history(spec)
    if history is None:
        return None, []
    with ExitStack() as opened:
        committers = {
            entry.name: opened.enter_context(closing(build_committer(build_sink(spec, entry), spec.pipeline)))
            for entry in spec.outputs
        }
        counts = {name: each.inspect(history.head.incarnation, ()).counted for name, each in committers.items()}
        losses: list[Loss] = []
        waiting: list[CheckpointRecord] = []  # what the repair would bring to its end
        for record in reversed(history.checkpoints):
            asked = record.committables
            if history.is_committed(record):
                asked = {name: group for name, group in asked.items() if _went_back(record, counts.get(name))}
            waiting += [record] if asked or waiting else []
            lost = {name: group for name, group in _lost(committers, record, asked) if group}
            losses += [Loss(record, lost)] if lost else []
    if losses:
        _check_named(history.head, waiting, committers.keys())
    after = read_history(spec)
    assert after is not None
    return after, [each for each in losses if history.is_committed(each.record) or not after.is_committed(each.record)]


def _check_named(head: HeadValue, waiting: Sequence[CheckpointRecord], names: Collection[str]) -> None:
    """Else the claim would drop a sink out of head, and nothing could bring these checkpoints to their end."""
    for record in waiting:
        for sink in record.committables.keys() - names:
            message = f"checkpoint {record.checkpoint_id} was decided for sink {sink}, which the spec no longer names"
            remedy = "put the sink back" if sink in head.sinks else _LEFT_OUT
            raise IdentityError(message, remedy=remedy)


_LEFT_OUT: Final = (
    "the pipeline has run without it since: restore a newer copy of the sink that went back in time; or give up "
    "the lost rows with `eos reset --abandon-lost`, and set the next position with `--to`"
)


def _went_back(record: CheckpointRecord, counted: int | None) -> bool:
    return counted is not None and counted < record.checkpoint_id and not record.direct


def _lost(
    committers: Mapping[str, Committer], record: CheckpointRecord, asked: Mapping[str, tuple[Committable, ...]]
) -> Iterator[tuple[str, tuple[Committable, ...]]]:
    for name, group in asked.items():
        if name not in committers:
            message = f"checkpoint {record.checkpoint_id} was decided for sink {name}, which the spec no longer names"
            raise IdentityError(message, remedy="put the sink back")
        yield name, tuple(committers[name].missing_committables(record.checkpoint_id, group))


def _repair(spec: Spec, history: Status, losses: Sequence[Loss]) -> Repaired:
    from spark_jobs.operations.repair import Rerun  # imports Spark, which takes a second
    from spark_jobs.session.spark_session import spark_session

    out.say("starting Spark")
    spark = spark_session(spec, debug=out.debug)
    try:
        rerun = Rerun(spec, spark, history)
        for each in losses:
            rerun.check(each)
        sinks = [build_sink(spec, entry) for entry in spec.outputs]
        log = spark_log(spec)
        with open_driver(spec, sinks, log, session=f"{secrets.token_hex(8)}.0") as driver:
            return driver.repair(rerun)
    finally:
        spark.stop()


def _lines(loss: Loss) -> Iterator[Text]:
    record = loss.record
    count = sum(map(len, loss.lost.values()))
    transactions = "1 transaction" if count == 1 else f"{count} transactions"
    said = f"Lost of checkpoint {record.checkpoint_id}, which is completed: {transactions} with {loss.rows:,} rows."
    yield out.text(said, "bold")
    ranges = ", ".join(f"{r.split}[{r.start}, {r.end})" for each in record.ranges.values() for r in each)
    yield out.text(f"Its records are {ranges}: they are re-read, and only the lost rows are rewritten.")


def _table(loss: Loss) -> Table:
    table = Table()
    for heading in ("sink", "task", "rows", "lost transaction"):
        table.add_column(heading, overflow="fold")
    for sink, each in loss.each:
        shown = (sink, each.transaction.task, f"{each.rows:,}", each.transaction)
        table.add_row(*map(out.text, shown))
    return table


def _facts(loss: Loss) -> dict[str, object]:
    return {
        "checkpoint_id": loss.record.checkpoint_id,
        "rows": loss.rows,
        "lost": [
            {"sink": sink, "task": each.transaction.task, "rows": each.rows, "transaction": str(each.transaction)}
            for sink, each in loss.each
        ],
        "ranges": {
            source: [{"split": each.split, "start": each.start, "end": each.end} for each in ranges]
            for source, ranges in loss.record.ranges.items()
        },
    }
