"""`/healthz` and `/readyz`, for whoever keeps the process alive and whoever waits for it: without a token."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response

from spark_jobs.page import state
from spark_jobs.page.selection import all_of

router: Final = APIRouter()


@router.get("/healthz", responses={503: {"description": "Of a pipeline, the thread that hears requests has died."}})
async def healthz(request: Request) -> Response:
    """Whether the process lives, and hears what is asked of it: if not, it is to be started anew.

    Needs nothing but memory, and none of the threads that other answers may wait in: a head that is away is not cured
    by a new process.
    """
    lives = [each.live for each in all_of(request).values() if each.live is not None]
    return _told(all(live.is_steered() for live in lives))


@router.get("/readyz", responses={503: {"description": "A pipeline starts, restarts, or does not run."}})
def readyz(request: Request) -> Response:
    """Whether every pipeline's query runs."""
    return _told(all(state.is_ready(each) for each in all_of(request).values()))


def _told(is_well: bool) -> Response:
    return Response("ok\n" if is_well else "not ok\n", 200 if is_well else 503, media_type="text/plain")
