"""`eos init`: writes a spec to start from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from eos.errors import SpecError
from spark_jobs.cli.options import AsJson, Debug
from spark_jobs.cli.output import out
from spark_jobs.cli.template import sink_template, source_template, text

_SOURCE: Final = "The source's connector; without it the first of this project."
_SINK: Final = "The sink's connector; without it the first of this project."
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")] = Path("pipeline.yaml"),
    name: Annotated[str, typer.Option(help="Name of the pipeline, its topic and its table.")] = "orders",
    source: Annotated[str | None, typer.Option(help=_SOURCE, metavar="CONNECTOR", show_default=False)] = None,
    form: Annotated[str, typer.Option("--format", help="Format of a record's value.")] = "json",
    sink: Annotated[str | None, typer.Option(help=_SINK, metavar="CONNECTOR", show_default=False)] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write a commented spec to start from. Existing files are never overwritten.

    The spec is complete: it reads addresses from environment variables, which its first lines name, and `eos validate`
    accepts it. Change topics, columns and table to yours. `eos connectors` lists sources, sinks and formats.

    Exit code: 0; 2 if the file exists or cannot be written, or an option is wrong.

    Examples:

        eos init

        eos init clicks.yaml --name clicks --format string --sink sqlite
    """
    if not _NAME.fullmatch(name):
        message = f"{name!r} is not a valid name for a pipeline, a topic and a table"
        raise SpecError(message, remedy="give letters, digits, - and _, beginning with a letter, at most 60")
    shown = str(file) if str(file).isprintable() else "FILE"
    (begin_name, begin), (end_name, end) = source_template(source), sink_template(sink)
    _write(file, text(shown, name, form, begin, end))
    variables = (begin.variable, end.variable)
    if as_json:
        out.facts({"ok": True, "file": file, "source": begin_name, "sink": end_name, "variables": variables})
    else:
        out.show(out.text(f"{file} is written. Set {' and '.join(variables)}, then run: eos validate {file}", "bold"))


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise SpecError(f"{file} exists already", remedy="give another name, or delete it") from None
    except OSError as error:
        raise SpecError(f"{file}: cannot be written: {error.strerror}", remedy="give another path") from None
