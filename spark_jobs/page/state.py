"""How a pipeline is: by what its own process tells, else by its history; and whether anybody would hear a request."""

from __future__ import annotations

from typing import Final

from eos.errors import HistoryError
from spark_jobs.observe.history.model import Run
from spark_jobs.observe.run_lock import RunLock
from spark_jobs.page import schemas
from spark_jobs.page.pipeline_view import PipelineView

_OF_RUN: Final[dict[str, schemas.State]] = {
    "starting": "starting",
    "standby": "standby",
    "paused": "paused",
    "restarting": "restarting",
    "stopping": "stopping",
}
"""By the first word that a run says of itself; with any other one it runs."""
_ENDED: Final[dict[str, schemas.State]] = {"stopped": "stopped", "caught up": "caught up", "failed": "failed"}
"""What it says at its end, which others that share its process may outlive."""


def state_of(watched: PipelineView, presence: RunLock | None) -> tuple[schemas.State, str]:
    """The state, and what else is to be said of it: without a history that can be read, what is known without."""
    if watched.live is not None:
        return _told(watched.live.text, presence)
    try:
        return _by_history(watched, presence)
    except HistoryError:
        return ("running", "") if presence is not None else ("stopped", "")


def _by_history(watched: PipelineView, presence: RunLock | None) -> tuple[schemas.State, str]:
    if presence is not None:
        return _told(_newest_state(watched, presence.session) or "starting", presence)
    run = newest_run(watched)
    if run is None:
        return "new", "it has not run yet"
    ended = run.ended or _newest_state(watched, run.run_id)
    return (_ENDED[ended], "") if ended in _ENDED else ("killed", "its process ended without a word")


def _told(text: str, presence: RunLock | None) -> tuple[schemas.State, str]:
    if text in _ENDED:
        return ("stopping" if presence is not None else _ENDED[text]), ""
    state = _OF_RUN.get(text.split(" ")[0], "running")
    return state, text if text != state else ""


def _newest_state(watched: PipelineView, run_id: str) -> str:
    said = watched.history.events(1, kinds=["state"])
    return said[0].message if said and said[0].run_id == run_id else ""


def name_of(watched: PipelineView) -> schemas.PipelineName:
    """For the list of all."""
    state, _ = state_of(watched, watched.presence())
    return schemas.PipelineName(key=watched.key, name=watched.name, state=state)


def is_ready(watched: PipelineView) -> bool:
    """Whether its query runs, or is paused, or this driver is a standby: a rollout waits for this."""
    return state_of(watched, watched.presence())[0] in {"running", "paused", "standby"}


def is_steerable(watched: PipelineView) -> bool:
    """Whether a request will be heard. Raises HistoryError."""
    presence = watched.presence()
    return can_steer(watched, presence, None if presence is not None else newest_run(watched))


def newest_run(watched: PipelineView) -> Run | None:
    """None: it never ran. Raises HistoryError."""
    runs = watched.history.runs(1)
    return runs[0] if runs else None


def can_steer(watched: PipelineView, presence: RunLock | None, run: Run | None) -> bool:
    """Whether a request will be heard; of a driver on another machine its history says that it has not ended."""
    if presence is not None:
        return True
    return watched.spec.checkpoint.is_shared and run is not None and run.ended_at is None
