"""The command `eos run`: its options, and what is set up before Spark is imported."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_jobs.cli.logs import log_to_stderr
from spark_jobs.cli.options import Debug, SpecPath
from spark_jobs.cli.output import out
from spark_jobs.cli.page_options import UiHost, UiPort, UiTokenFile, page_options
from twophase.errors import SpecError

UntilCaughtUp = Annotated[
    bool,
    typer.Option("--until-caught-up", help="End when everything that was in the topics at the start is committed."),
]


Ui = Annotated[bool, typer.Option("--ui", help="Serve a page that shows what the pipeline does, with its API.")]


def run(
    spec: SpecPath,
    until_caught_up: UntilCaughtUp = False,
    ui: Ui = False,
    ui_host: UiHost = "127.0.0.1",
    ui_port: UiPort = 8080,
    ui_token_file: UiTokenFile = None,
    debug: Debug = False,
) -> None:
    """Run a pipeline until it is stopped.

    Ctrl-C and SIGTERM finish the running checkpoint, a second one aborts it: either way nothing is left prepared.
    After a crash, start it again with the same spec: it goes on where the last complete checkpoint ended.

    With --ui it prints the URL of its page, which carries the token that the buttons take, and serves metrics for
    Prometheus at /metrics.

    Exit code: 0 after a clean stop, 1 if the run failed, 2 if the spec is wrong.

    Examples:

        eos run orders.yaml

        eos run orders.yaml --until-caught-up

        eos run orders.yaml --ui --ui-port 0
    """
    loaded = out.load(spec)
    if not loaded.sources:
        message = f"{spec} names no sources"
        raise SpecError(message, remedy="it is for a job of your own, by ExactlyOnce; `eos run` needs sources")
    log_to_stderr()
    from spark_jobs.cli.run import run_pipeline  # imports Spark, which takes a second: not before the spec is right

    page = page_options(ui_host, ui_port, ui_token_file) if ui else None
    run_pipeline(loaded, out.console(), until_caught_up=until_caught_up, debug=out.debug, page=page)
