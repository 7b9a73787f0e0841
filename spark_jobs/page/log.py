"""The part of the API with the last lines of the logs. Logs quote records, so they need the token that steers."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query

from connectors.control_characters import escapes
from eos.errors import ConnectorError
from spark_jobs.observe.recent_lines import Tail, tail
from spark_jobs.page import schemas
from spark_jobs.page.auth import needs_steering
from spark_jobs.page.pipeline_view import PipelineView
from spark_jobs.page.selection import ERRORS, OF_ONE, Chosen

router: Final = APIRouter(responses=ERRORS, dependencies=[Depends(needs_steering)])

_FILES: Final = {"spark": "spark.log", "stderr": "spark.stderr.log"}
_ESCAPES: Final = escapes(keep="\t")


class LogError(ConnectorError):
    """A log cannot be read."""


@router.get(f"{OF_ONE}/log")
def log(
    chosen: Chosen,
    of: Annotated[schemas.LogName, Query(description="the run's own log, Spark's, or stderr of Spark's processes")],
    lines: Annotated[int, Query(ge=1, le=500)] = 200,
) -> schemas.Log:
    """Return the last lines of a log. Only the page of the run itself has the log of the run."""
    found = _own(chosen, lines) if of == "run" else _of_file(chosen, _FILES[of], lines)
    if found is None:
        return schemas.Log(of=of, lines=[], bytes=None, changed_at=None, is_there=False)
    shown = [line.translate(_ESCAPES) for line in found.lines]
    size, at = (None, None) if of == "run" else (found.bytes, found.changed_at)
    return schemas.Log(of=of, lines=shown, bytes=size, changed_at=at, is_there=True)


def _own(chosen: PipelineView, lines: int) -> Tail | None:
    return Tail(chosen.live.log.newest(lines), 0, 0.0) if chosen.live is not None else None


def _of_file(chosen: PipelineView, name: str, lines: int) -> Tail | None:
    path = chosen.spec.checkpoint.folder / name
    try:
        return tail(path, lines)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise LogError(message, remedy="check the permissions of the checkpoint location") from error
