"""`eos ui`, and the options of the page that `eos run` has too."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from connectors.spec import Spec
from spark_jobs.cli.logs import log_to_stderr
from spark_jobs.cli.options import Debug, Format, LogFormat
from spark_jobs.cli.output import out
from spark_jobs.observe.run_lock import token_kept
from twophase.in_doubt import InDoubtTransaction

if TYPE_CHECKING:
    from spark_jobs.page.opening import Opened, PageOptions

_HOST_HELP: Final = "Address on which the page listens."
_PORT_HELP: Final = "Port of the page; 0: any free port."
_PORT_VARIABLE: Final = "EOS_UI_PORT"
"""docker/healthcheck reads it, too."""
_TOKEN_HELP: Final = (
    "A file with the page's token. Also: EOS_UI_TOKEN. Without it, a token is generated and printed on a terminal; "
    "otherwise it is in a file, whose name is printed."
)
_READ_TOKEN_HELP: Final = "A file with a second, read-only token: for Prometheus. Also: EOS_UI_READ_TOKEN."

UiHost = Annotated[str, typer.Option("--ui-host", metavar="ADDRESS", help=_HOST_HELP)]
UiPort = Annotated[int, typer.Option("--ui-port", min=0, max=65535, envvar=_PORT_VARIABLE, help=_PORT_HELP)]
UiTokenFile = Annotated[Path | None, typer.Option("--ui-token-file", metavar="FILE", help=_TOKEN_HELP)]
UiReadTokenFile = Annotated[Path | None, typer.Option("--ui-read-token-file", metavar="FILE", help=_READ_TOKEN_HELP)]
MetricsPerSplit = Annotated[
    bool, typer.Option("--metrics-per-split", help="Also serve the lag of each partition, one series each.")
]
Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help=_HOST_HELP)]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help=_PORT_HELP)]
TokenFile = Annotated[Path | None, typer.Option("--token-file", metavar="FILE", help=_TOKEN_HELP)]


ReadTokenFile = Annotated[Path | None, typer.Option("--read-token-file", metavar="FILE", help=_READ_TOKEN_HELP)]
SpecPaths = Annotated[
    list[Path],
    typer.Argument(metavar="SPEC", show_default=False, help="The YAML files that describe the pipelines."),
]


def page_options(
    host: str, port: int, token_file: Path | None, read_token_file: Path | None, *, metrics_per_split: bool = False
) -> PageOptions:
    """Raises PageError."""
    from spark_jobs.page.opening import READ_TOKEN_VARIABLE, PageOptions, given_token  # FastAPI takes a quarter second

    token = given_token(token_file, os.environ)
    read_token = given_token(read_token_file, os.environ, READ_TOKEN_VARIABLE)
    return PageOptions(host, port, token, read_token, metrics_per_split)


def held_by_sinks(spec: Spec) -> Sequence[InDoubtTransaction]:
    """What sinks hold prepared. Connects to each."""
    from spark_jobs.cli.in_doubt import in_doubt

    with in_doubt(spec) as held:
        return held.found


@contextmanager
def shown_entry(page: Opened, spec: Spec) -> Iterator[None]:
    """Print where the page is, for this block.

    On a terminal its URL carries the token that was made for it. Anything else keeps what is printed, as a container's
    log does: there a file at the checkpoint location has the token, for this user alone, as long as the page is served.
    Raises HeadError where it cannot be written.
    """
    if page.made_token is None or sys.stdout.isatty():
        print(f"page: {page.entry}", flush=True)
        yield
        return
    with token_kept(spec, page.made_token) as path:
        print(f"page: {page.url} (its token is in {path})", flush=True)
        yield


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
