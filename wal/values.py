"""Small objects as a store answers with them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tag:
    """How a store names the content of an object: another content has another tag."""

    e_tag: str | None
    version: str | None  # of Google Cloud Storage: its generation


@dataclass(frozen=True, slots=True)
class Found:
    """An object as a read has found it."""

    content: bytes
    tag: Tag
