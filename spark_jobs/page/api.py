"""The HTTP interface as a whole: API, probes, metrics, the page's files, and the guard before all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from connectors.spec import mask
from eos.errors import ConnectorError, SpecError
from spark_jobs.page import dead_letters, log, reading, state, steering
from spark_jobs.page.auth import Guard, Tokens
from spark_jobs.page.errors import BusyError, NoRunError
from spark_jobs.page.masked import masking
from spark_jobs.page.pipeline_view import PipelineView
from spark_jobs.page.selection import all_of
from twophase.version import installed_version

ASSETS: Final = Path(__file__).parent / "assets"

_STATUS: Final[dict[type[ConnectorError], int]] = {
    BusyError: 429,
    NoRunError: 409,
    SpecError: 409,
    ConnectorError: 503,
}
"""Of the first class that an error is of."""

ROUTERS: Final = (reading.router, steering.router, dead_letters.router, log.router)
"""All paths below /api."""

_PROBES: Final = APIRouter()
"""For whoever keeps the process alive, and whoever waits for it: without a token."""

RenderMetrics = Callable[[], tuple[bytes, str]]
"""In the Prometheus text format, and its content type."""


def application(
    pipelines: Sequence[PipelineView], tokens: Tokens, *, is_loopback: bool, metrics: RenderMetrics | None = None
) -> ASGIApp:
    """Everything that is served. `metrics`: of the pipelines that this process runs; None: it runs none."""
    secrets = frozenset[str]().union(*(each.spec.secrets for each in pipelines))
    answer = masking(lambda text: mask(text, secrets))
    api = FastAPI(
        title="eos",
        summary="State, history and control of exactly-once pipelines.",
        version=installed_version(),
        docs_url=None,  # its pages would load scripts from elsewhere
        redoc_url=None,
        default_response_class=answer,
    )
    api.state.pipelines = {each.key: each for each in pipelines}
    _answer_errors(api, answer)
    for router in (*ROUTERS, _PROBES):
        api.include_router(router)
    if metrics is not None:
        api.add_api_route("/metrics", _metrics(metrics), include_in_schema=False)
    api.mount("/", StaticFiles(directory=ASSETS, html=True))
    return Guard(api, tokens, is_loopback)


def _metrics(metrics: RenderMetrics) -> Callable[[], Response]:
    def exposed() -> Response:
        content, media_type = metrics()
        return Response(content, media_type=media_type)

    return exposed


def _answer_errors(api: FastAPI, answer: type[JSONResponse]) -> None:
    """Every error in the form of `schemas.Refused`."""

    def refusal(status: int, message: str, remedy: str = "") -> JSONResponse:
        return answer({"error": {"message": message, "remedy": remedy}}, status_code=status)

    @api.exception_handler(HTTPException)
    def not_there(_request: Request, error: HTTPException) -> JSONResponse:
        return refusal(error.status_code, error.detail)

    @api.exception_handler(RequestValidationError)
    def not_a_question(_request: Request, error: RequestValidationError) -> JSONResponse:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        return refusal(422, wrong, "/openapi.json lists the requests")

    @api.exception_handler(ConnectorError)
    def not_possible(_request: Request, error: ConnectorError) -> JSONResponse:
        status = next(status for kind, status in _STATUS.items() if isinstance(error, kind))
        return refusal(status, error.message, error.remedy)


@_PROBES.get(
    "/healthz", responses={503: {"description": "The thread that handles the requests to a pipeline has ended."}}
)
async def healthz(request: Request) -> Response:
    """Whether the process lives, and hears what is asked of it: if not, it is to be started anew.

    Needs nothing but memory, and none of the threads that other answers may wait in: a head that is away is not cured
    by a new process.
    """
    lives = [each.live for each in all_of(request).values() if each.live is not None]
    return _told(all(live.is_steered() for live in lives))


@_PROBES.get("/readyz", responses={503: {"description": "A pipeline starts, restarts, or does not run."}})
def readyz(request: Request) -> Response:
    """Whether every pipeline's query runs, or this driver is a standby with Spark started."""
    return _told(all(state.is_ready(each) for each in all_of(request).values()))


def _told(is_well: bool) -> Response:
    return Response("ok\n" if is_well else "not ok\n", 200 if is_well else 503, media_type="text/plain")
