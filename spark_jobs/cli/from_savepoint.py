"""Output of a start from a savepoint: its effects, printed before it is done or refused."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from connectors.spec import Spec
from connectors.sql.entry import UPSERT
from spark_jobs.cli.output import out
from spark_jobs.cli.quantities import count, position
from spark_jobs.operations.from_savepoint import Beginning
from spark_jobs.operations.repeated_records import Repeated


def tell(spec: Spec, console: Console, beginning: Beginning) -> None:
    """Print it."""
    for each in _lines(spec, beginning):
        console.print(each)
    if beginning.repeated.splits:
        console.print(_table(beginning.repeated))


def _lines(spec: Spec, beginning: Beginning) -> Iterator[Text]:
    manifest = beginning.manifest
    yield out.text(f"{spec.pipeline}: from savepoint {manifest.id}, checkpoint {manifest.checkpoint_id}", "bold")
    if beginning.forks:
        yield out.text(f"  It belongs to {manifest.pipeline}: this pipeline is a fork of it.")
    yield from (out.text(f"  {each}") for each in beginning.changes.changes)
    yield from (out.text(f"  not restored: {each}") for each in beginning.changes.not_restored)
    if beginning.changes.operators is None:
        yield out.text("  Positions are restored, but no state: checkpoints are counted from 0.")
    if beginning.goes_on:
        yield out.text("  The pipeline is still at the savepoint, and continues.")
        return
    for sink, incarnation in beginning.foreign.items():
        yield out.text(f"  sink {sink} is claimed by another incarnation of the pipeline ( {incarnation})")
    if beginning.repeated.any:
        yield out.text(f"  {beginning.repeated}", "bold")
        for entry in spec.outputs:
            yield out.text(f"  sink {entry.name}: {_effect(entry.commit, beginning.repeated.rows.get(entry.name))}")


def _effect(commit: str, rows: int | None) -> str:
    if commit == UPSERT:
        return (
            "shows older values again until the pipeline is where it was, and then the same ones as now, if steps give "
            "the same rows"
        )
    return "these rows are written twice" if rows is None else f"{rows:,} rows are written twice"


def _table(repeated: Repeated) -> Table:
    shown = Table(caption="in offsets: transaction markers and compacted records count too", caption_justify="left")
    for heading in ("split", "from", "to", "written twice"):
        shown.add_column(heading, justify="left" if heading == "split" else "right", overflow="fold")
    for each in repeated.splits:
        numbers = (position(each.start), position(each.end), count(each.records))
        shown.add_row(*map(out.text, (f"{each.source}: {each.split}", *numbers)))
    return shown
