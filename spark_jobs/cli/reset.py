"""`eos reset`: the deliberate reset of R2, for stores that contradict each other or for a restart from scratch."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from connectors.registry import build_sink
from connectors.spec import Spec
from spark_jobs.cli import beginning
from spark_jobs.cli.logs import log_to_stderr
from spark_jobs.cli.options import AsJson, Debug, SpecPath
from spark_jobs.cli.output import out
from spark_jobs.cli.requests import asker
from spark_jobs.observe.head_reader import read_head
from spark_jobs.observe.history.model import Event
from spark_jobs.observe.history.recorder import tell
from spark_jobs.operations.new_start import parse, resolve
from spark_jobs.query.rebuilt_spark_log import spark_log
from spark_jobs.run.open_driver import open_driver
from twophase.abandoned import add_given_up
from twophase.head_value import HeadValue
from twophase.positions import distance, least, total
from twophase.reset import Begun
from twophase.values import StartingPoint


def reset(
    spec: SpecPath,
    to: beginning.To = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without this option, only show the effect.")] = False,
    abandon_lost: Annotated[
        bool, typer.Option("--abandon-lost", help="Give up rows that were decided and can never become visible.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Restart the pipeline from scratch under the same name, and report duplicated and missing records.

    First every decided checkpoint is committed, and every other prepared transaction is rolled back. Then a new
    incarnation begins: Spark's state and all positions are dropped, sinks of another copy of the pipeline are taken
    over, and the next run starts at `starting_offsets`. Rows in the sinks stay.

    With `--to` the next run starts there instead. For each split the command reports how many records will be written
    twice, and how many never. It computes this from the positions of this incarnation and the offsets that the service
    has. The positions are stored with the new incarnation, so later records do not change the result. `--to completed`
    continues after the newest completed checkpoint: without Spark's checkpoint and state, but with every row once.

    A decided checkpoint that cannot be committed is named and refused: its record is damaged, its sink has lost it, or
    the sink is no longer in the spec. `--abandon-lost` gives it up, and reports checkpoint, offsets and transactions.

    Stop the pipeline first: a running driver is fenced. If it has completed a checkpoint since this command read its
    head, `--to` is refused and nothing is changed, because the positions are those of that head. Without `--to` the
    command reports it and continues, because all positions are dropped anyway. Both are refused if another incarnation
    has begun.

    Exit code: 0; 1 if it was refused or a service does not answer (it can be run again); 2 if the spec is wrong.

    Examples:

        eos reset orders.yaml

        eos reset orders.yaml --yes

        eos reset orders.yaml --to earliest

        eos reset orders.yaml --to completed --yes

        eos reset orders.yaml --to orders/0=1700,orders/1=1650 --yes

        eos reset orders.yaml --yes --json
    """
    wanted = parse(to) if to is not None else None
    loaded = out.load(spec)
    log_to_stderr()
    head = read_head(loaded)
    begins, splits = resolve(loaded, wanted, head) if wanted is not None else (None, [])
    consequence = _consequence(loaded, head) if begins is None else beginning.consequence(loaded.pipeline, head, splits)
    if not as_json:
        out.show(out.text(consequence), *([beginning.table(splits)] if splits else []))
    begun = _reset(loaded, head, begins, abandon_lost=abandon_lost) if yes else None
    left = _clear(loaded, begun) if begun is not None else None
    if begun is not None:
        tell(loaded, _told(begun, to))
    if as_json:
        facts = {"ok": True, "pipeline": loaded.pipeline, "done": yes, "consequence": consequence}
        if begins is not None:
            facts["splits"] = beginning.facts(splits)
        facts["warning"] = beginning.superseded(head, begun.before) if begun is not None else ""
        out.facts({**facts, **(_facts(begun, left) if begun is not None else {})})
    elif begun is None:
        out.show(out.text("Nothing was changed. Add --yes to do it.", "bold"))
    else:
        out.show(*beginning.given_up(begun.abandoned))
        if left is not None:
            out.show(
                out.text(f"Spark's checkpoint of the previous incarnation stays in {left}: delete it if not needed.")
            )
        if warning := beginning.superseded(head, begun.before):
            out.say(f"warning: {warning}")
        out.show(out.text(f"Done: incarnation {begun.head.incarnation}, epoch {begun.head.epoch}.", "bold"))


def _reset(
    spec: Spec, head: HeadValue | None, begins: Mapping[str, StartingPoint] | None, *, abandon_lost: bool
) -> Begun:
    sinks = [build_sink(spec, entry) for entry in spec.outputs]
    log = spark_log(spec)
    with open_driver(spec, sinks, log, session=secrets.token_hex(8)) as driver:
        return driver.reset(expected=head, abandon_lost=abandon_lost, begins=begins)


def _told(begun: Begun, to: str | None) -> Event:
    """For the history."""
    old = begun.before
    ended = (
        f"incarnation {old.incarnation} ended at checkpoint {old.completed}" if old is not None else "it never ran here"
    )
    message = f"reset, by {asker()}: {ended}, {begun.head.incarnation} begins at {to or 'starting_offsets'}"
    facts = {"ended": begun.ended, "incarnation": begun.head.incarnation, "to": to}
    return Event(time.time(), "reset", add_given_up(message, begun.abandoned), facts=facts)


def _clear(spec: Spec, begun: Begun) -> Path | None:
    """Delete Spark's checkpoint of the life that has ended; where it stays if not.

    It stays where rows were given up: its offsets say what to write again.
    """
    log = spark_log(spec)
    if begun.ended is None or (not begun.abandoned and log.forget(begun.ended)):
        return None
    folder = log.folder(begun.ended)
    return folder if folder.exists() else None


def _consequence(spec: Spec, head: HeadValue | None) -> str:
    if head is None:
        return f"Pipeline {spec.pipeline!r} never ran here; a reset takes over its sinks from any other copy of it."
    if not spec.sources:
        return (
            f"Pipeline {spec.pipeline!r} has completed checkpoint {head.completed}. The job that writes it needs a new "
            "`checkpointLocation` afterwards, and reads from its start: records that the sinks already hold are then "
            "written twice."
        )
    starts = [source.starts_from for source in spec.sources]
    done = total(
        distance(head.initial[name].get(split, least(end)), end)
        for name, now in head.positions.items()
        for split, end in now.items()
    )
    if set(starts) == {"earliest"}:
        about = f"about {done:,} records" if done is not None else "all records"
        effect = f"{about} that the sinks already hold will be written twice"
    elif set(starts) != {"latest"}:
        effect = (
            "records from there on that the sinks already hold are written twice, and earlier records are not written"
        )
    else:
        effect = "records that arrive before the next run's start, and are not yet read, will never be written"
    return (
        f"Pipeline {spec.pipeline!r} has completed checkpoint {head.completed}. The next run starts at "
        f"{', '.join(dict.fromkeys(starts))}: {effect}."
    )


def _facts(begun: Begun, left: Path | None) -> dict[str, object]:
    return {
        "incarnation": begun.head.incarnation,
        "epoch": begun.head.epoch,
        "ended": begun.ended,
        "abandoned": beginning.given_up_facts(begun.abandoned),
        "left": left,
    }
