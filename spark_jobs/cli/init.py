"""`eos init`: writes a spec to start from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from eos.errors import SpecError
from spark_jobs.cli.options import AsJson, Debug
from spark_jobs.cli.output import out
<<<<<<< 313b3c44d41a9c28a32525db2afc5df54757370d
from spark_jobs.cli.template import sink_template, source_template, text
from twophase.errors import SpecError
=======
from spark_jobs.cli.template import VARIABLES, FormatKind, SinkKind, SourceKind, template
>>>>>>> f48907fc56aaf411b14749c19c6ba9bcefe4268e

_SOURCE: Final = "The source's connector; without it the first of this project."
_SINK: Final = "The sink's connector; without it the first of this project."
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")


def init(
<<<<<<< 313b3c44d41a9c28a32525db2afc5df54757370d
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")] = Path("pipeline.yaml"),
    name: Annotated[str, typer.Option(help="Of the pipeline, its topic and its table.")] = "orders",
    source: Annotated[str | None, typer.Option(help=_SOURCE, metavar="CONNECTOR", show_default=False)] = None,
    form: Annotated[str, typer.Option("--format", help="What a record's value is.")] = "json",
    sink: Annotated[str | None, typer.Option(help=_SINK, metavar="CONNECTOR", show_default=False)] = None,
=======
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")] = Path("pipeline.yaml"),
    name: Annotated[str, typer.Option(help="Name of the pipeline, its topic and its table.")] = "orders",
    source: Annotated[SourceKind, typer.Option(help="The source's connector.")] = SourceKind.KAFKA,
    form: Annotated[FormatKind, typer.Option("--format", help="Format of a record's value.")] = FormatKind.JSON,
    sink: Annotated[SinkKind, typer.Option(help="The sink's connector.")] = SinkKind.MYSQL,
>>>>>>> f48907fc56aaf411b14749c19c6ba9bcefe4268e
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write a commented spec to start from. Existing files are never overwritten.

<<<<<<< 313b3c44d41a9c28a32525db2afc5df54757370d
    The spec is complete: it takes addresses from environment variables, which its first lines name, and `eos validate`
    accepts it as it is. Change topics, columns and table to yours. `eos connectors` lists sources, sinks and formats.
=======
    The spec is complete: it reads addresses from the environment variables KAFKA and DATABASE, and `eos validate`
    accepts it. Change topics, columns and table to yours.
>>>>>>> f48907fc56aaf411b14749c19c6ba9bcefe4268e

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
<<<<<<< 313b3c44d41a9c28a32525db2afc5df54757370d
        out.show(
            out.text(f"{file} is written. Set {' and '.join(variables)}, and go on with: eos validate {file}", "bold")
        )
=======
        out.show(out.text(f"{file} is written. Set {' and '.join(VARIABLES)}, then run: eos validate {file}", "bold"))
>>>>>>> f48907fc56aaf411b14749c19c6ba9bcefe4268e


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise SpecError(f"{file} exists already", remedy="give another name, or delete it") from None
    except OSError as error:
        raise SpecError(f"{file}: cannot be written: {error.strerror}", remedy="give another path") from None
