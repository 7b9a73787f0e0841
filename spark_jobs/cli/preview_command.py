"""The command `eos preview`: its options, and its rows for people and for programs.

Values of records come from anywhere: `cell` and `plain` make of them what a terminal and JSON can hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    from spark_jobs.operations.table_preview import TablePreview

_SHOWN: Final = 200  # characters of a value in a table
_NARROW: Final = 40  # characters of a value that a column of a table shows on one line
_NOTHING: Final = "there is nothing to read; --from earliest begins at the first records"

Columns = Sequence[tuple[str, str]]
"""Names and types, in the order of the columns."""
Rows = Sequence[Mapping[str, object]]
"""Values by column, in the order of the columns."""


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

    Rows that are wider than the terminal are shown with one field a line. If the sink has several tables, the first
    rows of each are shown, without Spark, and --rows is the maximum for each.

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

    wanted = parse(begin) if begin is not None else None
    names = [entry.name for entry in loaded.sinks]
    if sink is not None and sink not in names:
        raise SpecError(f"{spec} has no sink {sink!r}", remedy=f"it has {', '.join(names)}")
    chosen = sink or names[0]
    if next(entry for entry in loaded.sinks if entry.name == chosen).has_several_tables:
        from spark_jobs.operations.table_preview import preview_tables

        tables = preview_tables(loaded, chosen, rows, wanted, with_sink=not no_sink)
        if as_json:
            out.facts({"ok": True, "pipeline": loaded.pipeline, "tables": [_facts_of(each) for each in tables]})
            return
        for table in tables:
            _show_table(table)
        if not tables:
            out.show(out.text(f"No rows: {_NOTHING}.", "bold"))
        return
    from spark_jobs.operations.preview import preview as look  # imports Spark: not before the spec is right
    from spark_jobs.operations.scratch import scratch_session

    with scratch_session(loaded, debug=out.debug) as (here, spark):
        found = look(here, spark, chosen, rows, wanted, with_sink=not no_sink)
    if as_json:
        out.facts({"ok": True, "pipeline": loaded.pipeline, **_facts(found.columns, found.rows)})
        return
    show(found.columns, found.rows)
    if not found.rows:
        reason = _NOTHING if found.is_empty else "the steps returned no rows"
        out.show(out.text(f"No rows: {reason}.", "bold"))


def _show_table(found: TablePreview) -> None:
    """Print the table of rows, and the rows or why they cannot be written."""
    name = f"{printable(found.table)}, from topic" if found.table else "topic"
    out.show("", out.text(f"{name} {printable(found.topic)}", "bold"))
    if found.problem:
        out.show(out.text(f"A run could not write these rows: {found.problem}", "yellow"))
    show(found.columns, found.rows)


def _facts_of(found: TablePreview) -> Mapping[str, object]:
    facts: dict[str, object] = {"topic": found.topic, "table": found.table or None, "problem": found.problem or None}
    return {**facts, **_facts(found.columns, found.rows)}


def _facts(columns: Columns, rows: Rows) -> Mapping[str, object]:
    return {
        "columns": [{"name": name, "type": kind} for name, kind in columns],
        "rows": [{name: plain(value) for name, value in row.items()} for row in rows],
    }


def show(columns: Columns, rows: Rows) -> None:
    """Print rows as one table, or with one field a line if a table would be wider than the terminal."""
    is_wide = rows and _is_wide(columns, rows, out.console().width)
    out.show(*(_records(columns, rows) if is_wide else [_table(columns, rows)]))


_BORDERS: Final = 3  # characters of a table's borders, for each column


def _is_wide(columns: Columns, rows: Rows, width: int) -> bool:
    """Return whether a table of these rows would have to fold its headings or short values."""
    needed = 1
    for name, kind in columns:
        values = [cell(row[name]).cell_len for row in rows]
        heading = max(len(printable(name)), len(kind))
        needed += _BORDERS + max(heading, min(max(values, default=0), _NARROW))
    return needed > width


def _records(columns: Columns, rows: Rows) -> Iterator[Table]:
    """Yield a table with one field a line, once a row."""
    for number, row in enumerate(rows, 1):
        table = Table(title=out.text(f"row {number}"), title_justify="left", show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        table.add_column(style="dim", overflow="fold")
        for name, kind in columns:
            table.add_row(out.text(printable(name)), cell(row[name]), out.text(kind))
        yield table


def _table(columns: Columns, rows: Rows) -> Table:
    table = Table()
    for name, kind in columns:
        table.add_column(out.text(f"{printable(name)}\n{kind}"), overflow="fold")
    for row in rows:
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
