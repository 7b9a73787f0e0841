"""Arguments and options that several commands have, so that they read the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from pydantic import TypeAdapter, ValidationError

from connectors.spec.fields import PositiveDuration
from spark_jobs.cli.output import out


def _as_json(value: bool) -> bool:
    out.as_json = out.as_json or value
    return value


def _debug(value: bool) -> bool:
    out.debug = out.debug or value
    return value


def _duration(value: str | float) -> float:
    """Of what the command line says, or of the default."""
    if isinstance(value, float):
        return value
    try:
        return _DURATION.validate_python(value)
    except ValidationError as error:
        mistake = error.errors()[0]
        raise typer.BadParameter(f"{mistake['msg']}; write {', '.join(mistake['ctx']['allowed'])}") from None


_DURATION: Final = TypeAdapter(PositiveDuration)

SpecPath = Annotated[
    Path, typer.Argument(metavar="SPEC", show_default=False, help="The YAML file that describes the pipeline.")
]
AsJson = Annotated[
    bool, typer.Option("--json", callback=_as_json, help="Print one JSON object instead, also for errors.")
]
Debug = Annotated[
    bool, typer.Option("--debug", callback=_debug, help="Show stack traces with errors. Also: EOS_DEBUG=1.")
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="TIME", parser=_duration, show_default=False, help="How long to wait: 30s, 5min."
    ),
]
