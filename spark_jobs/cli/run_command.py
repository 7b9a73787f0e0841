"""The command `eos run`: its options, and what is set up before Spark is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.cli.logs import log_to_stderr
from spark_jobs.cli.options import Debug, Format, LogFormat, SpecPaths
from spark_jobs.cli.output import out
from spark_jobs.cli.page_options import MetricsPerSplit, UiHost, UiPort, UiReadTokenFile, UiTokenFile, page_options
from twophase.errors import SpecError

UntilCaughtUp = Annotated[
    bool,
    typer.Option(
        "--until-caught-up",
        help="End when everything that was in the topics at the start is committed; wait for open transactions.",
    ),
]


Ui = Annotated[bool, typer.Option("--ui", help="Serve a page that shows what the pipelines do, with its API.")]


FromSavepoint = Annotated[
    Path | None,
    typer.Option(
        "--from-savepoint", metavar="DIR", show_default=False, help="Begin where this savepoint stands, see below."
    ),
]
NonRestored = Annotated[
    bool,
    typer.Option("--allow-non-restored-state", help="Leave behind what the spec has no source or step for any more."),
]
Duplicates = Annotated[
    bool, typer.Option("--accept-duplicates", help="Write again what was written after the savepoint was taken.")
]
TakeOver = Annotated[
    bool,
    typer.Option("--take-over", help="Take the sinks over from another life of the pipeline, and end one at hand."),
]


def run(
    specs: SpecPaths,
    until_caught_up: UntilCaughtUp = False,
    from_savepoint: FromSavepoint = None,
    allow_non_restored_state: NonRestored = False,
    accept_duplicates: Duplicates = False,
    take_over: TakeOver = False,
    ui: Ui = False,
    ui_host: UiHost = "127.0.0.1",
    ui_port: UiPort = 8080,
    ui_token_file: UiTokenFile = None,
    ui_read_token_file: UiReadTokenFile = None,
    metrics_per_split: MetricsPerSplit = False,
    log_format: LogFormat = Format.TEXT,
    debug: Debug = False,
) -> None:
    """Run a pipeline, or several in one Spark, until they are stopped.

    Ctrl-C and SIGTERM finish the running checkpoint, a second one aborts it: either way nothing is left prepared.
    After a crash, start it again with the same spec: it goes on where the last complete checkpoint ended.

    Several pipelines share one Spark, and have the same section `spark`. Each has checkpoints and restarts of its own:
    one that fails for good ends by itself, the others go on, and the last lines say which it was.

    With --ui it prints the URL of its page, which carries the token that the page takes, and serves metrics for
    Prometheus at /metrics. Where the output is no terminal, the token is in a file, which is named.

    With `--from-savepoint` it begins where a savepoint stands, with its positions and state. First it says what the
    spec has changed since, and which records the sinks hold already; where something would be left behind, doubled or
    taken from another life of the pipeline, it is refused until the option for that is given. Where the pipeline
    is at the savepoint still, it goes on. Cut short, give the same command again.

    Exit code: 0 after a clean stop, 1 if the run failed, or one of several, 2 if a spec is wrong.

    Examples:

        eos run orders.yaml

        eos run orders.yaml --until-caught-up

        eos run orders.yaml --ui --ui-port 0

        eos run orders.yaml clicks.yaml

        eos run orders.yaml --from-savepoint /backup/orders/savepoint-k2x9qa-41-0f3c9d

        eos run orders.yaml --from-savepoint /backup/orders/savepoint-k2x9qa-41-0f3c9d --take-over
    """
    if from_savepoint is None and (allow_non_restored_state or accept_duplicates or take_over):
        raise SpecError("that is an option of a start from a savepoint", remedy="give --from-savepoint DIR as well")
    if from_savepoint is not None and len(specs) > 1:
        raise SpecError("a savepoint is of one pipeline", remedy="start that one alone, then all of them together")
    loaded = [out.load(spec) for spec in specs]
    for path, spec in zip(specs, loaded, strict=True):
        if not spec.sources:
            message = f"{path} names no sources"
            raise SpecError(message, remedy="it is for a job of your own, by ExactlyOnce; `eos run` needs sources")
    log_to_stderr()
    from spark_jobs.cli.run import run_pipelines  # imports Spark, which takes a second: not before the spec is right
    from spark_jobs.operations.from_savepoint import Allowed

    run_pipelines(
        loaded,
        out.console(quiet=out.log_json),
        until_caught_up=until_caught_up,
        debug=out.debug,
        page=page_options(ui_host, ui_port, ui_token_file, ui_read_token_file, metrics_per_split=metrics_per_split)
        if ui
        else None,
        savepoint=Allowed(from_savepoint.absolute(), allow_non_restored_state, accept_duplicates, take_over)
        if from_savepoint is not None
        else None,
    )
