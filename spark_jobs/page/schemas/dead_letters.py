"""Dead letters: records and rows that the pipeline could not take."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from spark_jobs.page.schemas.base import Answer


class DeadLetter(Answer):
    """One dead letter without its contents. Texts have escapes for control characters."""

    id: str  # in paths
    source: str | None
    sink: str | None  # that refused the row; step:NAME: a rule of the step rejected it; None: the record did not decode
    topic: str | None
    partition: int | None
    offset: int | None
    timestamp: str | None
    error: str
    checkpoint_id: int
    key_bytes: int | None  # None: null
    value_bytes: int | None
    can_replay: bool  # the record is known


class DeadLetters(Answer):
    """Newest first."""

    where: str | None  # None: the spec has no `dead_letter`
    read_at: float  # the answer of the service is kept for some seconds
    read: int  # dead letters that the filters were applied to: the newest ones
    most: int  # that are read; `eos dead-letters list` has all
    letters: list[DeadLetter]


class Content(Answer):
    """Bytes as text where they are UTF-8, else in hexadecimal digits; the beginning of a long value."""

    bytes: int
    text: str | None
    hex: str | None
    is_cut: bool


class Header(Answer):
    """A header of the record."""

    name: str
    value: Content | None


class Payload(Answer):
    """The contents of one dead letter."""

    id: str
    key: Content | None
    value: Content | None
    headers: list[Header]


class ReplayWish(BaseModel):
    """The dead letters to replay."""

    model_config = ConfigDict(extra="forbid")

    ids: Annotated[
        list[Annotated[str, Field(pattern="^[0-9a-f]{20}$")]],
        Field(min_length=1, max_length=200, description="`id` of each dead letter"),
    ]


class Replayed(Answer):
    """The result of a replay."""

    chosen: int  # records: several dead letters may be of one
    sent: int
    before: int  # records that an earlier replay had sent
    missing: int  # dead letters that are not among the newest any more, or whose record is not known
