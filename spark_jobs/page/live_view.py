"""What only the driver's own process knows of its pipeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from spark_jobs.observe.activity import Activity
from spark_jobs.observe.history.model import StateSize
from spark_jobs.observe.recent_lines import RecentLines
from spark_jobs.observe.report import Listener


@dataclass(slots=True)
class Live(Listener):
    """Its attributes are read by the page's thread: each is replaced as a whole."""

    text: str = "starting"
    is_steered: Callable[[], bool] = lambda: True  # whether the thread that hears requests lives
    activity: Callable[[], Activity | None] = lambda: None
    state_size: StateSize | None = None
    spark_ui: str | None = None  # its URL
    log: RecentLines = field(default_factory=RecentLines)

    def on_state(self, text: str) -> None:
        self.text = text

    def on_state_size(self, size: StateSize) -> None:
        self.state_size = size


@dataclass(frozen=True, slots=True)
class Beside:
    """A page beside a run: what is told what the run tells, and where the page is; as it comes, there is no page."""

    live: Live = field(default_factory=Live)
    listeners: tuple[Listener, ...] = ()
    url: str | None = None
