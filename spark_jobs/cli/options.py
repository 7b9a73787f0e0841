"""Arguments and options that several commands have, so that they read the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.cli.output import out


def _as_json(value: bool) -> bool:
    out.as_json = out.as_json or value
    return value


def _debug(value: bool) -> bool:
    out.debug = out.debug or value
    return value


SpecPath = Annotated[
    Path, typer.Argument(metavar="SPEC", show_default=False, help="The YAML file that describes the pipeline.")
]
AsJson = Annotated[
    bool, typer.Option("--json", callback=_as_json, help="Print one JSON object instead, also for errors.")
]
Debug = Annotated[
    bool, typer.Option("--debug", callback=_debug, help="Show stack traces with errors. Also: EOS_DEBUG=1.")
]
