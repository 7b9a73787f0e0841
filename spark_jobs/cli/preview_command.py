"""The command `eos preview`: its options, and its rows for people and for programs.

Values of records come from anywhere: `cell` and `plain` make of them what a terminal and JSON can hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from eos.errors import SpecError
from spark_jobs.cli.logs import log_to_stderr
from spark_jobs.cli.options import AsJson, Debug, SpecPath
from spark_jobs.cli.output import out

if TYPE_CHECKING:
    from spark_jobs.operations.preview import Preview

_SHOWN: Final = 200  # characters of a value in a table
_NARROW: Final = 40  # characters of a value that a column of a table shows on one line


def preview(
    spec: SpecPath,
    rows: Annotated[int, typer.Option("--rows", min=1, max=10_000, help="Maximum number of rows to show.")] = 20,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="earliest|latest|TOPIC/PARTITION=OFFSET,...",
            help="Start position; default: `starting_offsets`.",
            show_default=False,
        ),
    ] = None,
    sink: Annotated[
        str | None,
        typer.Option(
            "--sink", metavar="NAME", help="Sink whose rows are shown; default: the first sink.", show_default=False
        ),
    ] = None,
    no_sink: Annotated[
        bool, typer.Option("--no-sink", help="Do not connect to the sink: show the rows as the steps return them.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show the first rows as they would be written, and write nothing.

    Reads up to 20,000 records as a first run would, through all steps, and compares the rows with the target table. It
    stores no decision, claims no sink, creates no table, commits no group offsets, and does not touch the checkpoint
    location. A running pipeline is not disturbed. Stateful steps begin with empty state.

    Rows that are wider than the terminal are shown with one field a line.

    Exit code: 0, also without rows; 1 if a service does not answer or the rows do not fit; 2 if the spec is wrong.

    Examples:

        eos preview orders.yaml

        eos preview orders.yaml --rows 5 --from orders/0=1700

        eos preview orders.yaml --sink archive --no-sink --json
    """
    loaded = out.load(spec)
    if not loaded.sources:
        message = f"{spec} names no sources"
        raise SpecError(
            message, remedy="the spec is for a job of your own with ExactlyOnce; `eos preview` needs sources"
        )
    log_to_stderr()
    from spark_jobs.operations.new_start import parse
    from spark_jobs.operations.preview import preview as look  # imports Spark: not before the spec is right
    from spark_jobs.operations.scratch import scratch_session

    wanted = parse(begin) if begin is not None else None
    names = [entry.name for entry in loaded.sinks]
    if sink is not None and sink not in names:
        raise SpecError(f"{spec} has no sink {sink!r}", remedy=f"it has {', '.join(names)}")
    with scratch_session(loaded, debug=out.debug) as (here, spark):
        found = look(here, spark, sink or names[0], rows, wanted, with_sink=not no_sink)
    if as_json:
        columns = [{"name": field.name, "type": field.dataType.simpleString()} for field in found.schema.fields]
        shown = [{name: plain(value) for name, value in row.items()} for row in found.rows]
        out.facts({"ok": True, "pipeline": loaded.pipeline, "columns": columns, "rows": shown})
        return
    show(found)
    if not found.rows:
        hint = "there is nothing to read; --from earliest begins at the first records"
        reason = hint if found.is_empty else "the steps returned no rows"
        out.show(out.text(f"No rows: {reason}.", "bold"))


def show(found: Preview) -> None:
    """Print rows as one table, or with one field a line if a table would be wider than the terminal."""
    out.show(*(_records(found) if _is_wide(found, out.console().width) else [_table(found)]))


_BORDERS: Final = 3  # characters of a table's borders, for each column


def _is_wide(found: Preview, width: int) -> bool:
    """Return whether a table of these rows would have to fold its headings or short values."""
    needed = 1
    for field in found.schema.fields:
        values = [cell(row[field.name]).cell_len for row in found.rows]
        heading = max(len(printable(field.name)), len(field.dataType.simpleString()))
        needed += _BORDERS + max(heading, min(max(values, default=0), _NARROW))
    return needed > width


def _records(found: Preview) -> Iterator[Table]:
    """Yield a table with one field a line, once a row."""
    for number, row in enumerate(found.rows, 1):
        table = Table(title=out.text(f"row {number}"), title_justify="left", show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        table.add_column(style="dim", overflow="fold")
        for field in found.schema.fields:
            kind = field.dataType.simpleString()
            table.add_row(out.text(printable(field.name)), cell(row[field.name]), out.text(kind))
        yield table
    if not found.rows:
        yield _table(found)


def _table(found: Preview) -> Table:
    table = Table()
    for field in found.schema.fields:
        table.add_column(out.text(f"{printable(field.name)}\n{field.dataType.simpleString()}"), overflow="fold")
    for row in found.rows:
        table.add_row(*(cell(value) for value in row.values()))
    return table


def cell(value: object) -> Text:
    """A value in a table: cut, and without secrets."""
    if value is None:
        return Text("NULL", style="dim")
    text = printable(value if isinstance(value, str) else str(plain(value)))
    return out.text(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def printable(text: str) -> str:
    """What would move the cursor, colour the terminal or turn the line around is shown as an escape."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def plain(value: object) -> object:
    """As JSON can hold it: bytes in hex, decimals, moments and numbers that JSON has not as text."""
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return str(value)
    if isinstance(value, (Decimal, datetime, date, time, timedelta)):
        return str(value)
    return value
