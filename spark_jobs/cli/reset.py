"""`eos reset`: the deliberate reset of R2, when the stores no longer tell one story or all is to begin anew."""

from __future__ import annotations

import secrets
from typing import Annotated

import typer

from connectors.registry import build_sink, open_head
from connectors.spec import Spec
from spark_jobs.cli.options import Debug, SpecPath
from spark_jobs.cli.output import out
from spark_jobs.incarnation import new_incarnation
from spark_jobs.spark_log import LocalSparkLog
from twophase.codec import decode_head
from twophase.driver import Driver
from twophase.head_value import HeadValue


def reset(
    spec: SpecPath,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without this, only say what would happen.")] = False,
    abandon_lost: Annotated[
        bool, typer.Option("--abandon-lost", help="Give up rows that were decided and can never become visible.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Begin the pipeline anew under the same name, and say what that writes twice or leaves out.

    First everything that was decided is committed and everything else that was prepared is rolled back. Then a new
    incarnation begins: Spark's state and all positions are left behind, sinks that belonged to another copy of the
    pipeline are taken over, and the next run starts at `starting_offsets`. Rows that are in the sinks stay there.

    Stop the pipeline first: a driver that still runs is fenced.

    Examples:

        eos reset orders.yaml

        eos reset orders.yaml --yes
    """
    loaded = out.load(spec)
    store = open_head(loaded)
    seen = store.read()
    head = decode_head(seen.value) if seen is not None else None
    out.show(out.text(_consequence(loaded, head)))
    if not yes:
        out.show(out.text("Nothing was changed. Add --yes to do it.", "bold"))
        return
    sinks = [build_sink(loaded, entry) for entry in loaded.sinks]
    committers = {sink.name: sink.committer(loaded.pipeline) for sink in sinks}
    try:
        after = Driver(
            pipeline=loaded.pipeline,
            head=store,
            committers=committers,
            spark=LocalSparkLog(loaded.checkpoint.location),
            session=secrets.token_hex(8),
            incarnation=new_incarnation(),
        ).reset(abandon_lost=abandon_lost)
    finally:
        for committer in committers.values():
            committer.close()
        store.close()
    out.show(out.text(f"Done: incarnation {after.incarnation}, epoch {after.epoch}.", "bold"))


def _consequence(spec: Spec, head: HeadValue | None) -> str:
    if head is None:
        return f"Pipeline {spec.pipeline!r} never ran here; a reset takes its sinks over from any other copy of it."
    source = spec.sources[0]
    first, now = head.initial.get(source.name, {}), head.positions.get(source.name, {})
    done = sum(end - first.get(split, 0) for split, end in now.items())
    if source.starting_offsets == "earliest":
        effect = f"about {done:,} records that the sinks already hold will be written again"
    else:
        effect = "records that arrive before the next run's start, and are not yet read, will never be written"
    return (
        f"Pipeline {spec.pipeline!r} has completed checkpoint {head.completed}. The next run starts at "
        f"{source.starting_offsets!r}: {effect}."
    )
