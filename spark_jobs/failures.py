"""Turns what Spark throws into the framework's errors: the cause that a task named, not the hundred lines around it."""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

from twophase import errors
from twophase.errors import ConnectorError, PrepareError, SparkUnavailableError

_OURS: Final = re.compile(
    r"^(?:\S+: )*?twophase\.errors\.(?P<kind>\w+): (?P<message>.*?)(?:\n  remedy: (?P<remedy>[^\n]*))?$",
    re.MULTILINE,
)
_PYTHON: Final = re.compile(r"^(?P<error>[A-Za-z_][\w.]*(?:Error|Exception|Fault\w*)\b(?:: [^\n]*)?)$", re.MULTILINE)
_NOISE: Final = ("org.apache.spark", "java.", "scala.", "py4j.", "pyspark.")


def translate(error: BaseException, doing: str) -> ConnectorError:
    """The framework's error behind `error`.

    Args:
        error: what a call into Spark raised.
        doing: what was being done, for the message of an error that is not ours ("checkpoint 7").

    Returns:
        The very error that a task or the planner raised if it was one of ours, found by its name in the remote
        traceback;
        otherwise a PrepareError (which a restart may cure) with the innermost Python error, or else Spark's first line.
    """
    if isinstance(error, ConnectorError):
        return error
    if isinstance(error, Py4JNetworkError | ConnectionError):
        return SparkUnavailableError(
            f"{doing} failed: Spark's JVM has ended",
            remedy="see spark.log and spark.stderr.log at the checkpoint location, then start again: nothing is lost",
        )
    text = str(error)
    for found in reversed(list(_OURS.finditer(text))):
        kind = getattr(errors, found["kind"], None)
        if isinstance(kind, type) and issubclass(kind, ConnectorError):
            return kind(found["message"], remedy=found["remedy"] or "")
    python = [m["error"] for m in _PYTHON.finditer(text) if not m["error"].startswith(_NOISE)]
    cause = python[-1] if python else next((line.strip() for line in text.splitlines() if line.strip()), repr(error))
    return PrepareError(f"{doing} failed: {cause}", remedy="`--debug` shows Spark's whole report")
