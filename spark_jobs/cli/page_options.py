"""Options of the page: of `eos run`, which serves it beside the pipeline, and of `eos ui`, which only looks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from connectors.spec import Spec
from twophase.in_doubt import Doubt

if TYPE_CHECKING:
    from spark_jobs.page.opening import PageOptions

_HOST_HELP: Final = "Where the page listens. Beyond this machine, everything on it takes the token."
_PORT_HELP: Final = "0: any that is free."
_TOKEN_HELP: Final = "A file with the token of the page. Also: EOS_UI_TOKEN. Without one, a token is made and printed."

UiHost = Annotated[str, typer.Option("--ui-host", metavar="ADDRESS", help=_HOST_HELP)]
UiPort = Annotated[int, typer.Option("--ui-port", min=0, max=65535, help=_PORT_HELP)]
UiTokenFile = Annotated[Path | None, typer.Option("--ui-token-file", metavar="FILE", help=_TOKEN_HELP)]
Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help=_HOST_HELP)]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help=_PORT_HELP)]
TokenFile = Annotated[Path | None, typer.Option("--token-file", metavar="FILE", help=_TOKEN_HELP)]


def page_options(host: str, port: int, token_file: Path | None) -> PageOptions:
    """Raises PageError."""
    from spark_jobs.page.opening import PageOptions, given_token  # FastAPI takes a quarter of a second

    return PageOptions(host, port, given_token(token_file, os.environ))


def held_by_sinks(spec: Spec) -> Sequence[Doubt]:
    """What sinks hold prepared. Connects to each."""
    from spark_jobs.cli.in_doubt import in_doubt

    with in_doubt(spec) as held:
        return held.found


def show_entry(url: str) -> None:
    """Print where the page is: the one line that shows a secret, its token, since it is made to be opened."""
    print(f"page: {url}", flush=True)
