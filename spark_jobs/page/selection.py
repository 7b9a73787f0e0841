"""The pipeline that a path names, and what its routes have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import Depends, HTTPException, Request

from spark_jobs.page import schemas
from spark_jobs.page.pipeline_view import PipelineView

PREFIX: Final = "/api/v1"
OF_ONE: Final = f"{PREFIX}/pipelines/{{pipeline}}"

ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    401: {"model": schemas.Refused, "description": "The token is missing or wrong."},
    403: {"model": schemas.Refused, "description": "The request comes from a page of another site."},
    404: {"model": schemas.Refused, "description": "There is no such thing."},
    413: {"model": schemas.Refused, "description": "The request is too large."},
    421: {"model": schemas.Refused, "description": "The request is for another host."},
    422: {"model": schemas.Refused, "description": "The request does not fit this document."},
    503: {
        "model": schemas.Refused,
        "description": "A store that is needed for the answer does not respond, or is damaged.",
    },
}


def all_of(request: Request) -> Mapping[str, PipelineView]:
    """Those that are served, by key."""
    found: Mapping[str, PipelineView] = request.app.state.pipelines
    return found


def _named(request: Request, pipeline: str) -> PipelineView:
    found = all_of(request).get(pipeline)
    if found is None:
        raise HTTPException(404, "no pipeline of this name is served here")
    return found


Chosen = Annotated[PipelineView, Depends(_named)]
