"""`eos dead-letters`: lists dead letters and resends their records."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from connectors.dead_letter_names import STEP
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
Rule = Annotated[
    str | None,
    typer.Option("--rule", metavar="STEP", show_default=False, help="Only rows that a rule of this step rejected."),
]


@dead_letters.command("list")
def show(
    spec: SpecPath,
    source: Source = None,
    sink: Sink = None,
    rule: Rule = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show the visible dead letters: coordinates of the record, reason, and the beginning of its value.

    `--json` prints them completely: key, value and headers in base64. The command changes nothing.

    Exit code: 0; 1 if they cannot be read; 2 if the spec is wrong.

    Examples:

        eos dead-letters list orders.yaml

        eos dead-letters list orders.yaml --json
    """
    sink = _rejecting(sink, rule)
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
    rule: Rule = None,
    offset: Annotated[
        list[str] | None,
        typer.Option(
            "--offset", metavar="TOPIC/PARTITION/OFFSET", show_default=False, help="Only this record; may be repeated."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All bad records that were not replayed yet.")] = False,
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

    Records whose rows a sink refused are sent only with `--sink`, and records whose rows a rule of a step rejected only
    with `--rule`, once for all of their rows. **Every** sink of the pipeline gets them. Sinks that accepted their rows
    before have duplicates, unless they merge rows by a key. Rows whose record is unknown or no longer available are
    omitted.

    Without `--to`, a dead letter of a topic that its source does not read is refused, and nothing is sent.

    Exit code: 0; 1 if a service refuses or does not answer; 2 if the spec or the command line is wrong.

    Examples:

        eos dead-letters replay orders.yaml --all

        eos dead-letters replay orders.yaml --offset orders/0/17 --to orders.retry

        eos dead-letters replay orders.yaml --sink warehouse

        eos dead-letters replay orders.yaml --rule big
    """
    rejecting = _rejecting(sink, rule)
    loaded = out.load(spec)
    if not (source or rejecting or offset or everything):
        raise SpecError("no dead letters are selected", remedy="give --source, --sink, --rule, --offset or --all")
    found = [each for each in read(loaded) if each.record is not None and source in (None, each.source)]
    found = [each for each in found if not offset or each.place in offset]
    chosen = distinct(each for each in found if each.sink == rejecting)
    left_out = sum(each.sink is not None for each in found) if rejecting is None else 0
    missing = sorted(set(offset or ()) - {str(each.place) for each in chosen})
    if missing:
        message = f"there are no dead letters for {', '.join(missing)}"
        remedy = "`eos dead-letters list` shows the dead letters; rejected rows need --sink or --rule"
        raise SpecError(message, remedy=remedy)
    if rejecting is not None and chosen and not as_json:
        others = f"not only {sink}" if sink is not None else "also sinks that have other rows of them"
        out.show(out.text(f"Every sink gets these records, {others}."))
    sent = [letter for part in resend(loaded, chosen, to) for letter in part]
    before = len(chosen) - len(sent)
    if as_json:
        facts = {"chosen": len(chosen), "sent": [each.place for each in sent], "before": before, "left_out": left_out}
        out.facts({"ok": True, "pipeline": loaded.pipeline, **facts})
    else:
        more = f"; {before} had been sent there already" if before else ""
        out.show(out.text(f"{len(sent)} of {len(chosen)} records were resent{more}."))
        if left_out:
            text = f"Left out: {left_out} dead letters of rejected rows. Select them with --sink or --rule."
            out.show(out.text(text))


def _rejecting(sink: str | None, rule: str | None) -> str | None:
    """Return the value of `sink` in the selected dead letters; None if neither option is given."""
    if sink is not None and rule is not None:
        raise SpecError("--sink and --rule exclude each other", remedy="give one of them")
    return sink if rule is None else STEP + rule


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
        shown = "null" if each.value is None else repr(each.value[:_SHOWN])[1:]
        cells = (_origin(each), each.place or "not known", str(each.checkpoint_id), each.error, shown)
        table.add_row(*map(out.text, cells))
    return table


def _origin(letter: DeadLetter) -> str:
    if letter.sink is None:
        return f"source {letter.source}"
    return f"rule of {letter.sink.replace(':', ' ', 1)}" if letter.sink.startswith(STEP) else f"sink {letter.sink}"
