"""The command `eos run`: its options, and what is set up before Spark is imported."""

from __future__ import annotations

from typing import Annotated

import typer

from eos.errors import SpecError
from spark_jobs.cli.logs import log_to_stderr
from spark_jobs.cli.options import Debug, Format, LogFormat, SpecPaths
from spark_jobs.cli.output import out
from spark_jobs.cli.ui import MetricsPerSplit, UiHost, UiPort, UiReadTokenFile, UiTokenFile, page_options
from spark_jobs.observe.run_lock import check_not_running
from spark_jobs.savepoints.places import parse

UntilCaughtUp = Annotated[
    bool,
    typer.Option(
        "--until-caught-up",
        help="End when everything that was in the topics at the start is committed; wait for open transactions.",
    ),
]


Ui = Annotated[bool, typer.Option("--ui", help="Serve a page with the state of the pipelines, and its API.")]


FromSavepoint = Annotated[
    str | None,
    typer.Option(
        "--from-savepoint", metavar="DIR|URL", show_default=False, help="Start from this savepoint, see below."
    ),
]
NonRestored = Annotated[
    bool,
    typer.Option(
        "--allow-non-restored-state", help="Drop positions and state of sources and steps that the spec no longer has."
    ),
]
Duplicates = Annotated[
    bool, typer.Option("--accept-duplicates", help="Write records after the savepoint a second time.")
]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over",
        help="Start although another process on this machine runs the pipeline. From a savepoint: take over sinks "
        "claimed by another incarnation, and end the current one.",
    ),
]


Standby = Annotated[
    bool,
    typer.Option("--standby", help="Start Spark, and wait until no driver runs the pipeline, on any machine."),
]


def run(
    specs: SpecPaths,
    until_caught_up: UntilCaughtUp = False,
    from_savepoint: FromSavepoint = None,
    allow_non_restored_state: NonRestored = False,
    accept_duplicates: Duplicates = False,
    take_over: TakeOver = False,
    standby: Standby = False,
    ui: Ui = False,
    ui_host: UiHost = "127.0.0.1",
    ui_port: UiPort = 8080,
    ui_token_file: UiTokenFile = None,
    ui_read_token_file: UiReadTokenFile = None,
    metrics_per_split: MetricsPerSplit = False,
    log_format: LogFormat = Format.TEXT,
    debug: Debug = False,
) -> None:
    """Run one pipeline, or several in one Spark session, until they are stopped.

    Ctrl-C and SIGTERM finish the running checkpoint; a second signal aborts it. Either way nothing is left prepared.
    After a crash, run the command again with the same spec: it continues after the last completed checkpoint.

    If another process on this machine runs the pipeline, the command names that process and ends. With --take-over it
    starts, and the other process ends: a newer driver always fences an older one, on any machine.

    With --standby any number of drivers may be started on any machines: one runs the pipeline, the others start Spark
    and wait. If the driver ends, or does not answer for some seconds, a standby begins. A driver that is fenced becomes
    a standby. `eos stop` ends all of them; a signal ends one.

    Several pipelines share one Spark session and must have the same section `spark`. Each has its own checkpoints and
    restarts. If one fails permanently, it ends, the others continue, and the last lines name it.

    With --ui the command prints the URL of its page, including the token, and serves metrics for Prometheus at
    /metrics. If the output is not a terminal, the token is in a file, whose name is printed.

    With `--from-savepoint` the pipeline starts with the positions and state of a savepoint. The command first reports
    the changes of the spec, and the records that the sinks already hold. It is refused if state would be dropped,
    records duplicated, or sinks taken from another incarnation, until the option for that is given. If the pipeline is
    still at the savepoint, it continues. After an interruption, run the same command again.

    Exit code: 0 after a clean stop; 1 if the run, or one of several pipelines, failed; 2 if a spec is wrong.

    Examples:

        eos run orders.yaml

        eos run orders.yaml --until-caught-up

        eos run orders.yaml --ui --ui-port 0

        eos run orders.yaml --standby

        eos run orders.yaml clicks.yaml

        eos run orders.yaml --from-savepoint /backup/orders/savepoint-k2x9qa-41-0f3c9d

        eos run orders.yaml --from-savepoint /backup/orders/savepoint-k2x9qa-41-0f3c9d --take-over
    """
    if from_savepoint is None and (allow_non_restored_state or accept_duplicates):
        raise SpecError("this option needs a start from a savepoint", remedy="give --from-savepoint DIR as well")
    if from_savepoint is not None and len(specs) > 1:
        raise SpecError(
            "a savepoint belongs to one pipeline", remedy="start only that pipeline, then all of them together"
        )
    loaded = [out.load(spec) for spec in specs]
    for path, spec in zip(specs, loaded, strict=True):
        if not spec.sources:
            message = f"{path} names no sources"
            raise SpecError(
                message, remedy="the spec is for a job of your own with ExactlyOnce; `eos run` needs sources"
            )
    if standby and (take_over or from_savepoint is not None):
        raise SpecError("a standby takes over nothing", remedy="leave out --take-over and --from-savepoint")
    savepoint = parse(from_savepoint, loaded[0]) if from_savepoint is not None else None
    for spec in loaded if not (take_over or standby) else ():
        check_not_running(spec)
    log_to_stderr()
    from spark_jobs.cli.run import run_pipelines  # imports Spark, which takes a second: not before the spec is right
    from spark_jobs.operations.from_savepoint import Allowed

    run_pipelines(
        loaded,
        out.console(quiet=out.log_json),
        until_caught_up=until_caught_up,
        debug=out.debug,
        take_over=take_over,
        standby=standby,
        page=page_options(ui_host, ui_port, ui_token_file, ui_read_token_file, metrics_per_split=metrics_per_split)
        if ui
        else None,
        savepoint=Allowed(savepoint, allow_non_restored_state, accept_duplicates, take_over)
        if savepoint is not None
        else None,
    )
