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
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")] = Path("pipeline.yaml"),
    name: Annotated[str, typer.Option(help="Name of the pipeline, its topic and its table.")] = "orders",
    source: Annotated[SourceKind, typer.Option(help="The source's connector.")] = SourceKind.KAFKA,
    form: Annotated[FormatKind, typer.Option("--format", help="Format of a record's value.")] = FormatKind.JSON,
    sink: Annotated[SinkKind, typer.Option(help="The sink's connector.")] = SinkKind.MYSQL,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write a commented spec to start from. Existing files are never overwritten.

    The spec is complete: it reads addresses from the environment variables KAFKA and DATABASE, and `eos validate`
    accepts it. Change topics, columns and table to yours.

    Exit code: 0; 2 if the file exists or cannot be written, or an option is wrong.

    Examples:

        eos init

        eos init clicks.yaml --name clicks --format string --sink sqlite
    """
    if not _NAME.fullmatch(name):
        message = f"{name!r} is not a valid name for a pipeline, a topic and a table"
        raise SpecError(message, remedy="give letters, digits, - and _, beginning with a letter, at most 60")
    shown = str(file) if str(file).isprintable() else "FILE"
    _write(file, template(shown, name, form, sink))
    if as_json:
        out.facts({"ok": True, "file": file, "source": source, "sink": sink, "variables": VARIABLES})
    else:
        out.show(out.text(f"{file} is written. Set {' and '.join(VARIABLES)}, then run: eos validate {file}", "bold"))


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise SpecError(f"{file} exists already", remedy="give another name, or delete it") from None
    except OSError as error:
        raise SpecError(f"{file}: cannot be written: {error.strerror}", remedy="give another path") from None
