"""Arguments and options that several commands have, so that they read the same everywhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
from pydantic import TypeAdapter, ValidationError

from connectors.api.fields import PositiveDuration
from spark_jobs.cli.output import out


def _as_json(value: bool) -> bool:
    out.as_json = out.as_json or value
    return value


def _debug(value: bool) -> bool:
    out.debug = out.debug or value
    return value


class Format(StrEnum):
    """What lines of the log look like."""

    TEXT = "text"
    JSON = "json"


def _log_format(value: Format) -> Format:
    out.log_json = out.log_json or value is Format.JSON
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
SpecPaths = Annotated[
    list[Path], typer.Argument(metavar="SPEC", show_default=False, help="The YAML files, one for each pipeline.")
]
AsJson = Annotated[bool, typer.Option("--json", callback=_as_json, help="Print one JSON object, also for errors.")]
Debug = Annotated[
    bool, typer.Option("--debug", callback=_debug, help="Show stack traces with errors. Also: EOS_DEBUG=1.")
]
LogFormat = Annotated[
    Format,
    typer.Option(
        "--log-format",
        callback=_log_format,
        help="Format of the log on stderr; json: one object per line. Also: EOS_LOG_FORMAT.",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="TIME", parser=_duration, show_default=False, help="Maximum time to wait: 30s, 5min."
    ),
]
