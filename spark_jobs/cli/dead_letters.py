"""`eos dead-letters`: lists dead letters and resends their records."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from connectors.dead_letters import DeadLetter
from eos.errors import SpecError
from spark_jobs.cli.options import AsJson, Debug, SpecPath
from spark_jobs.cli.output import out
from spark_jobs.operations.dead_letters import distinct, read, resend

_SHOWN: int = 60  # characters of a value

dead_letters = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="""Show dead letters and resend their records.

    Exit code: 0; 1 if a service refuses or does not answer; 2 if the spec or the command line is wrong.

    Examples:

        eos dead-letters list orders.yaml

        eos dead-letters replay orders.yaml --all
    """,
)

Source = Annotated[
    str | None, typer.Option("--source", metavar="NAME", show_default=False, help="Only dead letters of this source.")
]
Sink = Annotated[
    str | None, typer.Option("--sink", metavar="NAME", show_default=False, help="Only rows that this sink refused.")
]


@dead_letters.command("list")
def show(
    spec: SpecPath, source: Source = None, sink: Sink = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Show the visible dead letters: coordinates of the record, reason, and the beginning of its value.

    `--json` prints them completely: key, value and headers in base64. The command changes nothing.

    Exit code: 0; 1 if they cannot be read; 2 if the spec is wrong.

    Examples:

        eos dead-letters list orders.yaml

        eos dead-letters list orders.yaml --json
    """
    loaded = out.load(spec)
    found = [each for each in read(loaded) if source in (None, each.source) and sink in (None, each.sink)]
    if as_json:
        out.facts({"ok": True, "pipeline": loaded.pipeline, "dead_letters": [_facts(each) for each in found]})
    elif found:
        out.show(_table(found))
    else:
        out.show(out.text("There are no dead letters."))


@dead_letters.command()
def replay(
    spec: SpecPath,
    source: Source = None,
    sink: Sink = None,
    offset: Annotated[
        list[str] | None,
        typer.Option(
            "--offset", metavar="TOPIC/PARTITION/OFFSET", show_default=False, help="Only this record; may be repeated."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that were not replayed yet.")] = False,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="TOPIC", show_default=False, help="Send to this topic instead of the records' own topic."
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Resend records that did not decode, with their bytes, key and headers, to their topic or to another one.

    Each record is sent once to a topic, for readers of committed records. A marker in the same Kafka transaction, in
    the topic `eos-markers` of the source's cluster, prevents a second send, also after a crash. In their topic they are
    new records at the end: other readers of the topic get them twice. A record that still does not decode becomes a new
    dead letter.

    Records whose rows a sink refused are sent only with `--sink`, once for all of their rows. **Every** sink of the
    pipeline gets them. Sinks that accepted their rows before have duplicates, unless they merge rows by a key. Rows
    whose record is unknown or no longer available are omitted.

    Exit code: 0; 1 if a service refuses or does not answer; 2 if the spec or the command line is wrong.

    Examples:

        eos dead-letters replay orders.yaml --all

        eos dead-letters replay orders.yaml --offset orders/0/17 --to orders.retry

        eos dead-letters replay orders.yaml --sink warehouse
    """
    loaded = out.load(spec)
    if not (source or sink or offset or everything):
        raise SpecError("no dead letters are selected", remedy="give --source, --sink, --offset or --all")
    found = read(loaded)
    chosen = distinct(each for each in found if _is_chosen(each, source, sink, offset))
    missing = sorted(set(offset or ()) - {str(each.place) for each in chosen})
    if missing:
        message = f"there are no dead letters for {', '.join(missing)}"
        raise SpecError(message, remedy="`eos dead-letters list` shows the dead letters")
    if sink is not None and chosen and not as_json:
        out.show(out.text(f"Every sink gets these records, not only {sink}."))
    sent = [letter for part in resend(loaded, chosen, to) for letter in part]
    if as_json:
        facts = {"chosen": len(chosen), "sent": [each.place for each in sent], "before": len(chosen) - len(sent)}
        out.facts({"ok": True, "pipeline": loaded.pipeline, **facts})
    else:
        before = f"; {len(chosen) - len(sent)} had been sent there already" if len(sent) < len(chosen) else ""
        out.show(out.text(f"{len(sent)} of {len(chosen)} records were resent{before}."))


def _is_chosen(letter: DeadLetter, source: str | None, sink: str | None, offsets: Sequence[str] | None) -> bool:
    if letter.record is None or letter.sink != sink:
        return False
    return source in (None, letter.source) and (not offsets or letter.place in offsets)


def _facts(letter: DeadLetter) -> dict[str, object]:
    return {
        "source": letter.source,
        "sink": letter.sink,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp": letter.timestamp,
        "key": _base64(letter.key),
        "value": _base64(letter.value),
        "headers": [[name, _base64(value)] for name, value in letter.headers],
        "error": letter.error,
        "checkpoint_id": letter.checkpoint_id,
    }


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _table(found: Sequence[DeadLetter]) -> Table:
    table = Table()
    for heading in ("of", "record", "checkpoint", "error", "value"):
        table.add_column(heading, overflow="fold")
    for each in found:
        of = f"sink {each.sink}" if each.sink is not None else f"source {each.source}"
        shown = "null" if each.value is None else repr(each.value[:_SHOWN])[1:]
        cells = (of, each.place or "not known", str(each.checkpoint_id), each.error, shown)
        table.add_row(*map(out.text, cells))
    return table
