"""What went wrong."""

from __future__ import annotations

from spark_jobs.page.schemas.base import Answer
from spark_jobs.page.schemas.checkpoints import AbortedTry


class Event(Answer):
    """Something that happened once."""

    seq: int
    at: float
    run_id: str
    kind: str
    message: str
    error: str
    remedy: str
    checkpoint_id: int | None
    delay_s: float | None


class Events(Answer):
    """Newest first."""

    events: list[Event]
    before: int | None  # of the next, older page; None: this was the last one
    aborted: list[AbortedTry]  # the newest, as many as `limit`, whatever `before` is
