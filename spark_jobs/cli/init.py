"""`eos init`: writes a spec to start from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from eos.errors import SpecError
from spark_jobs.cli.options import AsJson, Debug
from spark_jobs.cli.output import out
from spark_jobs.cli.template import VARIABLES, FormatKind, SinkKind, SourceKind, template

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")] = Path("pipeline.yaml"),
    name: Annotated[str, typer.Option(help="Of the pipeline, its topic and its table.")] = "orders",
    source: Annotated[SourceKind, typer.Option(help="The source's connector.")] = SourceKind.KAFKA,
    form: Annotated[FormatKind, typer.Option("--format", help="What a record's value is.")] = FormatKind.JSON,
    sink: Annotated[SinkKind, typer.Option(help="The sink's connector.")] = SinkKind.MYSQL,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write a commented spec to start from. Never writes over a file.

    The spec is complete: it takes addresses from the environment variables KAFKA and DATABASE, and `eos validate`
    accepts it as it is. Change topics, columns and table to yours.

    Exit code: 0, 2 if the file is there already or cannot be written, or an option is wrong.

    Examples:

        eos init

        eos init clicks.yaml --name clicks --format string --sink sqlite
    """
    if not _NAME.fullmatch(name):
        message = f"{name!r} cannot name a pipeline, a topic and a table alike"
        raise SpecError(message, remedy="give letters, digits, - and _, beginning with a letter, at most 60")
    shown = str(file) if str(file).isprintable() else "FILE"
    _write(file, template(shown, name, form, sink))
    if as_json:
        out.facts({"ok": True, "file": file, "source": source, "sink": sink, "variables": VARIABLES})
    else:
        out.show(
            out.text(f"{file} is written. Set {' and '.join(VARIABLES)}, and go on with: eos validate {file}", "bold")
        )


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise SpecError(f"{file} is there already", remedy="give another name, or delete it") from None
    except OSError as error:
        raise SpecError(f"{file}: cannot be written: {error.strerror}", remedy="give another place") from None
