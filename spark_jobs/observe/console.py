"""The progress line of `eos run`: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from spark_jobs.observe.lag import Lag
from spark_jobs.observe.report import CheckpointReport, Listener, Totals

_QUIET_S = 5.0
"""Least time between two plain lines."""


class ConsoleListener(Listener):
    """Tells the totals of a run: on a terminal as a line of `shown`; else it prints one, at most every 5 s."""

    def __init__(self, pipeline: str, console: Console, on_closed: Callable[[], None] = lambda: None) -> None:
        """`on_closed`: called when the output is a pipe that its reader has closed."""
        self.pipeline = pipeline
        self._console = console
        self._on_closed = on_closed
        self.totals = Totals()
        self._printed_at_s = 0.0
        self._lag = Lag()

    def on_state(self, text: str) -> None:
        self.totals.on_state(text)
        if not self._console.is_terminal:
            self._print(f"{self.pipeline}: {text}")

    def on_checkpoint(self, report: CheckpointReport) -> None:
        self.totals.on_checkpoint(report)
        now = time.monotonic()
        if not self._console.is_terminal and now - self._printed_at_s >= _QUIET_S:
            self._printed_at_s = now
            self._print(self._line())

    def _print(self, line: str) -> None:
        """Print a line. A listener raises nothing: rich exits the process at a closed pipe, after which it is quiet."""
        try:
            self._console.print(line, highlight=False, soft_wrap=True)
        except SystemExit:
            self._on_closed()

    def on_backlog(self, waiting: int) -> None:
        self.totals.waiting = waiting

    def on_lag(self, lag: Lag) -> None:
        self._lag = lag

    def _line(self) -> str:
        return f"{self.pipeline}: " + "  ".join(self.cells())

    def cells(self) -> tuple[str, ...]:
        """How the run stands at this moment."""
        totals, last = self.totals, self.totals.last
        if last is None:
            return (f"{totals.state_text} ({time.monotonic() - totals.started_at_s:.0f} s)",)
        ago = time.monotonic() - totals.last_at_s
        rate = totals.records_per_s if ago < _QUIET_S else 0.0
        return (
            totals.state_text,
            f"checkpoint {last.record.checkpoint_id}",
            f"{rate:,.0f} records/s",
            self._lag_cell(),
            f"{totals.waiting} decided ones wait for sinks" if totals.waiting else "committed",
            f"last one {ago:.1f} s ago ({last.duration_s:.2f} s)",
            f"{totals.records:,} records",
        )

    def _lag_cell(self) -> str:
        """Return the newest measured lag with its age; `lag ?` while it is unknown."""
        now = time.time()
        records, age_s = self._lag.records(now), self._lag.age_s(now)
        number = "?" if records is None else f"{records:,}"
        return f"lag {number}" if age_s is None else f"lag {number} ({age_s:.0f} s ago)"

    def closing(self) -> str:
        """What it has done, when it is over."""
        totals = self.totals
        seconds = time.monotonic() - totals.started_at_s
        restarts = f", {totals.restarts} restarts" if totals.restarts else ""
        left = f", the last {totals.waiting} of which the next start commits" if totals.waiting else ""
        done = "decided" if totals.waiting else "committed"
        return (
            f"{self.pipeline}: {totals.records:,} records in, {totals.rows:,} rows {done} in "
            f"{totals.checkpoints} checkpoints{left}, {seconds:.1f} s{restarts}"
        )


@contextmanager
def shown(listeners: Sequence[ConsoleListener], console: Console) -> Iterator[None]:
    """While the pipelines run: a line for each, redrawn four times a second. Ends with lines that stay."""

    def table() -> Table:
        grid = Table.grid(padding=(0, 2))
        for each in listeners:
            grid.add_row(Text(each.pipeline, style="bold"), *(Text(cell) for cell in each.cells()))
        return grid

    if console.is_terminal:
        with Live(get_renderable=table, console=console, refresh_per_second=4, transient=True):
            yield
    else:
        yield
    for each in listeners:
        console.print(each.closing(), highlight=False, soft_wrap=True)
