"""The part of the API that asks something of whoever runs a pipeline: by the durable channel, as the command line does.

Nothing is done here: an answer of 202 says that the request is stored, and its own path tells what becomes of it.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, HTTPException, Path, Request, Response

from connectors.registry import open_requests
from spark_jobs.page import facts, schemas, state
from spark_jobs.page.auth import Quoted
from spark_jobs.page.errors import NoRunError
from spark_jobs.page.pipeline_view import PipelineView
from spark_jobs.page.selection import ERRORS, OF_ONE, Chosen
from twophase import requests

_NOBODY: Final[dict[int | str, dict[str, Any]]] = {
    409: {"model": schemas.Refused, "description": "The pipeline is not running."}
}
_PATIENCE_S: Final = 600.0

router: Final = APIRouter(responses=ERRORS)


@router.post(f"{OF_ONE}/checkpoint", status_code=202, responses=_NOBODY)
def checkpoint(chosen: Chosen, request: Request, response: Response) -> schemas.RequestState:
    """Ask for a checkpoint now."""
    return _ask(chosen, request, response, "checkpoint", {})


@router.post(f"{OF_ONE}/savepoint", status_code=202, responses=_NOBODY)
def savepoint(chosen: Chosen, request: Request, response: Response) -> schemas.RequestState:
    """Ask for a savepoint, at the checkpoint location: another place is for who has a shell there to name."""
    return _ask(chosen, request, response, "savepoint", {})


@router.post(f"{OF_ONE}/stop", status_code=202, responses=_NOBODY)
def stop(
    chosen: Chosen, request: Request, response: Response, wish: Annotated[schemas.StopWish | None, Body()] = None
) -> schemas.RequestState:
    """Ask it to stop, as `eos stop` does."""
    return _ask(chosen, request, response, "stop", {"now": "true"} if wish is not None and wish.now else {})


@router.post(f"{OF_ONE}/restart", status_code=202, responses=_NOBODY)
def restart(chosen: Chosen, request: Request, response: Response) -> schemas.RequestState:
    """Request that the query ends after its checkpoint, and the same process starts a new one."""
    return _ask(chosen, request, response, "restart", {})


@router.post(f"{OF_ONE}/pause", status_code=202, responses=_NOBODY)
def pause(chosen: Chosen, request: Request, response: Response) -> schemas.RequestState:
    """Pause it, as `eos pause` does: it finishes its checkpoint and takes no other one, also after a restart."""
    return _ask(chosen, request, response, "pause", {})


@router.post(f"{OF_ONE}/resume", status_code=202, responses=_NOBODY)
def resume(chosen: Chosen, request: Request, response: Response) -> schemas.RequestState:
    """Let a paused pipeline take checkpoints."""
    return _ask(chosen, request, response, "resume", {})


@router.get(f"{OF_ONE}/requests/{{request_id}}")
def request_state(
    chosen: Chosen, quoted: Quoted, request_id: Annotated[str, Path(pattern=requests.ID)]
) -> schemas.RequestState:
    """Return the answer to a request. Its message may quote a record: it is there with the token that steers."""
    with open_requests(chosen.spec) as channel:
        found = channel.find(request_id)
        if found is None:
            raise HTTPException(404, "there is no such request (any more)")
        told = facts.request_of(found, channel.answer_of(found), channel.clock())
        return told.model_copy(update={"message": quoted(told.message)})


def _ask(
    chosen: PipelineView, request: Request, response: Response, kind: str, arguments: Mapping[str, str]
) -> schemas.RequestState:
    if not state.is_steerable(chosen):
        message = f"no process runs {chosen.name}"
        raise NoRunError(message, remedy="start it with `eos run`")
    by = f"the page at {socket.gethostname()}"
    with open_requests(chosen.spec) as channel:
        asked = channel.ask(kind, arguments, asked_by=by, patience_s=_PATIENCE_S)
        told = facts.request_of(asked, None, channel.clock())
    path = request.app.url_path_for("request_state", pipeline=chosen.key, request_id=asked.id)
    response.headers["location"] = f"{request.scope.get('root_path', '')}{path}"
    return told
