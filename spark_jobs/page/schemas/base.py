"""What all answers are, and the one that every refusal is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """Immutable; made of the nouns of the history by their attributes."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class Problem(Answer):
    """Why something was not done."""

    message: str
    remedy: str = ""


class Refused(Answer):
    """Every answer that is not one of success."""

    error: Problem
