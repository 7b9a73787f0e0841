"""What is asked of whoever runs a pipeline, and what became of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from spark_jobs.page.schemas.base import Answer


class StopWish(BaseModel):
    """How to stop."""

    model_config = ConfigDict(extra="forbid")

    now: Annotated[bool, Field(description="abort the running checkpoint instead of finishing it")] = False


class RequestState(Answer):
    """Something that was asked of whoever runs the pipeline."""

    id: str
    kind: str
    asked_at: float
    asked_by: str
    expires_at: float
    state: Literal["waiting", "done", "refused", "expired"]
    message: str
    facts: dict[str, Any]
