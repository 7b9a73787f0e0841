"""`eos ui`: the page of pipelines, whether they run or not."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.cli.logs import log_to_stderr
from spark_jobs.cli.options import Debug, Format, LogFormat
from spark_jobs.cli.output import out
from spark_jobs.cli.page_options import Host, Port, ReadTokenFile, TokenFile, held_by_sinks, page_options, shown_entry

SpecPaths = Annotated[
    list[Path],
    typer.Argument(metavar="SPEC...", show_default=False, help="The YAML files that describe the pipelines."),
]


def ui(
    specs: SpecPaths,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    token_file: TokenFile = None,
    read_token_file: ReadTokenFile = None,
    log_format: LogFormat = Format.TEXT,
    debug: Debug = False,
) -> None:
    """Serve the page of pipelines: their state, checkpoints, sinks, failures and spec.

    Shows the history and head of stopped and running pipelines, without Spark. If a driver runs on this machine, the
    buttons request a checkpoint, a savepoint or a stop. Readers need the token, which is part of the printed URL. `eos
    run --ui` serves the same page from the driver.

    Ends with Ctrl-C. Exit code: 0; 1 if the port is in use or the token cannot be read; 2 if a spec is wrong.

    Examples:

        eos ui orders.yaml

        eos ui orders.yaml archive.yaml --port 0
    """
    loaded = out.load_all(specs)
    options = page_options(host, port, token_file, read_token_file)
    log_to_stderr()
    from spark_jobs.page.opening import opened

    with opened(loaded, options, held_by_sinks) as page, shown_entry(page, loaded[0]):
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            signal.pause()
