"""The last lines of a log."""

from __future__ import annotations

from typing import Literal

from spark_jobs.page.schemas.base import Answer

LogName = Literal["run", "spark", "stderr"]


class Log(Answer):
    """Lines, oldest first. Control characters are escapes, and a long line is cut."""

    of: LogName
    lines: list[str]
    bytes: int | None  # of the file; null for `run`
    changed_at: float | None
    is_there: bool  # a log of a run in another process is not
