"""The command `eos run`: its options, and what is set up before Spark is imported."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_jobs.cli.logs import log_to_stderr
from spark_jobs.cli.options import Debug, SpecPath
from spark_jobs.cli.output import out
from twophase.errors import SpecError

UntilCaughtUp = Annotated[
    bool,
    typer.Option("--until-caught-up", help="End when everything that was in the topics at the start is committed."),
]


def run(spec: SpecPath, until_caught_up: UntilCaughtUp = False, debug: Debug = False) -> None:
    """Run a pipeline until it is stopped.

    Ctrl-C and SIGTERM finish the running checkpoint, a second one aborts it: either way nothing is left prepared.
    After a crash, start it again with the same spec: it goes on where the last complete checkpoint ended.

    Exit code: 0 after a clean stop, 1 if the run failed, 2 if the spec is wrong.

    Examples:

        eos run orders.yaml

        eos run orders.yaml --until-caught-up
    """
    loaded = out.load(spec)
    if not loaded.sources:
        message = f"{spec} names no sources"
        raise SpecError(message, remedy="it is for a job of your own, by ExactlyOnce; `eos run` needs sources")
    log_to_stderr()
    from spark_jobs.cli.run import run_pipeline  # imports Spark, which takes a second: not before the spec is right

    run_pipeline(loaded, out.console(), until_caught_up=until_caught_up, debug=out.debug)
