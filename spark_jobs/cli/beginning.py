"""Effects of the end of an incarnation, and of a chosen beginning on each split: for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from spark_jobs.cli.output import out
from spark_jobs.cli.quantities import count, position
from spark_jobs.operations.new_start import SplitStart
from twophase.abandoned import Abandoned
from twophase.head_value import HeadValue
from twophase.positions import total

To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="completed|earliest|latest|TOPIC/PARTITION=OFFSET,...",
        help="Start position of the next run, instead of `starting_offsets`. Splits not named keep their position; "
        "with `completed` all splits do.",
        show_default=False,
    ),
]


def consequence(pipeline: str, head: HeadValue | None, splits: Sequence[SplitStart]) -> str:
    """The sum of it in one sentence, and what it does not count."""
    again = count(total(each.written_again for each in splits))
    never = count(total(each.never_written for each in splits))
    state = f"has completed checkpoint {head.completed}" if head is not None else "never ran here"
    effect = f"{again} records will be written twice, and {never} that are there will never be written"
    unknown = "" if head is not None and head.completed >= 0 else "; rows of earlier incarnations are not counted"
    return f"Pipeline {pipeline!r} {state}. With this start {effect}{unknown}."


def superseded(announced: HeadValue | None, ended: HeadValue | None) -> str:
    """Return a warning if the old incarnation completed checkpoints after its head was announced, or an empty string.

    Only a reset without positions gets that far, see `twophase.reset.ClaimExpected`.
    """
    if announced is None or ended is None or ended.completed == announced.completed:
        return ""
    return (
        f"A driver was still running, and is fenced now. It completed checkpoint {ended.completed} after this command "
        "had read its head: the announced number of records does not include those checkpoints."
    )


def table(splits: Sequence[SplitStart]) -> Table:
    """A row for each split."""
    shown = Table(caption="in offsets: transaction markers and compacted records count too", caption_justify="left")
    for heading in ("split", "was at", "begins at", "ends at", "written twice", "never written"):
        shown.add_column(heading, justify="left" if heading == "split" else "right", overflow="fold")
    for each in splits:
        was_at = "not read" if each.was_at is None else position(each.was_at)
        places = (position(each.start), position(each.end))
        numbers = (count(each.written_again), count(each.never_written))
        shown.add_row(*map(out.text, (f"{each.source}: {each.split}", was_at, *places, *numbers)))
    return shown


def facts(splits: Sequence[SplitStart]) -> list[dict[str, object]]:
    """The same as plain data."""
    return [asdict(each) for each in splits]


def given_up(abandoned: Sequence[Abandoned]) -> list[Text]:
    """Return a line for each checkpoint of which rows were given up, or are gone in a sink that went back in time."""
    return [out.text(f"Given up: {each}") for each in abandoned]


def given_up_facts(abandoned: Sequence[Abandoned]) -> list[dict[str, object]]:
    """Return the same as plain data."""
    return [
        {
            "checkpoint_id": each.checkpoint_id,
            "sinks": each.sinks,
            "why": each.why,
            "transactions": [str(transaction) for transaction in each.transactions],
            "ranges": {
                source: [{"split": one.split, "start": one.start, "end": one.end} for one in ranges]
                for source, ranges in each.ranges.items()
            },
            "is_exact": each.is_exact,
        }
        for each in abandoned
    ]
