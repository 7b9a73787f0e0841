"""Turns what Spark throws into the framework's errors: the cause that a task named, not the hundred lines around it."""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]

from eos import errors
from eos.errors import ConnectorError, IdentityError, PrepareError, SparkUnavailableError

TOKEN: Final = secrets.token_hex(16)
"""Of this driver. Only what carries it is taken for an error of ours: a record's content may look like anything."""


class CarriedError(Exception):
    """An error of ours on its way from another process: Spark passes on nothing but text."""


@contextmanager
def carried(token: str) -> Iterator[None]:
    """In a task or the planner: make an error of ours survive the way to the driver whose TOKEN this is.

    Without one (a query that is not ours) errors go their way as they are.
    """
    try:
        yield
    except ConnectorError as error:
        if not token:
            raise
        content = json.dumps([_nearest(type(error)), error.message, error.remedy]).encode()
        raise CarriedError(f"eos:{token}:{base64.b64encode(content).decode()}: {error.message}") from error


def _nearest(kind: type[ConnectorError]) -> str:
    """Return the name of the class itself, or of its first base, that `eos.errors` has: the driver knows no other.

    A connector may raise a subclass that only the tasks can import.
    """
    names = [each.__name__ for each in kind.__mro__]
    return next(name for name, each in zip(names, kind.__mro__, strict=True) if getattr(errors, name, None) is each)


_CARRIED: Final = re.compile(rf"eos:{TOKEN}:(?P<content>[A-Za-z0-9+/=]+)")
_PYTHON: Final = re.compile(r"^(?P<error>(?P<name>[A-Za-z_][\w.]*+)(?:: [^\n]*)?)$", re.MULTILINE)
_WORKER: Final = re.compile(
    r"^(?:ModuleNotFoundError|ImportError): [^\n]*$|Cannot run program[^\n]*|\[PYTHON_VERSION_MISMATCH\][^\n]*",
    re.MULTILINE,
)
"""What a task fails with wherever it is tried, since its worker lacks something."""
_OTHER_STATE: Final = re.compile(
    r"\[(?:STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|STATE_STORE_INVALID_VA\w+"
    r"|STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE|STREAMING_STATEFUL_OPERATOR_NOT_MATCH\w*)\][^\n]*"
)
"""How Spark says that the state there is was kept by other steps than those of the query."""
_EXITS: Final = ("SystemExit", "KeyboardInterrupt")
"""Errors by which the code of a task would end its process."""
_NOISE: Final = ("org.apache.spark", "java.", "scala.", "py4j.", "pyspark.")
_INSTALL: Final = (
    "install it there for the Python that PYSPARK_PYTHON names, or ship it with spark.submit.pyFiles; "
    "`eos doctor` says what each worker lacks"
)


def _is_error(name: str) -> bool:
    """Whether a class of this name is likely to be an error's."""
    return name in _EXITS or name[1:].endswith(("Error", "Exception")) or "Fault" in name[1:].rpartition(".")[2]


def _is_unanswered(error: BaseException) -> bool:
    """Whether a call into the JVM had no answer at all: not an exception of Java's, and no trace of one."""
    return isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError) and "Trace:" not in str(error)


def translate(error: BaseException, doing: str) -> ConnectorError:
    """The framework's error behind `error`.

    Args:
        error: what a call into Spark raised.
        doing: what was being done, for the message of an error that is not ours ("checkpoint 7").

    Returns:
        The very error that a task or the planner raised if it was one of ours, found by its name in the remote
        traceback; SparkUnavailableError where the JVM has ended, or where a worker lacks what a task needs;
        IdentityError where Spark cannot read the state that there is;
        otherwise a PrepareError (which a restart may cure) with the innermost Python error, or else Spark's first line.
    """
    if isinstance(error, ConnectorError):
        return error
    if isinstance(error, ConnectionError) or _is_unanswered(error):
        return SparkUnavailableError(
            f"{doing} failed: Spark's JVM has ended",
            remedy="see spark.log and spark.stderr.log at the checkpoint location, then start again: nothing is lost",
        )
    text = str(error)
    found = list(_CARRIED.finditer(text))
    if found:
        name, message, remedy = json.loads(base64.b64decode(found[-1]["content"]))
        kind: type[ConnectorError] = getattr(errors, name)
        return kind(message, remedy=remedy)
    if lacking := _WORKER.search(text):
        return SparkUnavailableError(f"{doing} failed on a worker: {lacking[0]}", remedy=_INSTALL)
    if other := _OTHER_STATE.search(text):
        return IdentityError(
            f"{doing} failed: the state that there is was kept by other steps: {other[0]}",
            remedy="change the steps that keep state back; or take a savepoint (`eos savepoint`) and start from it, "
            "which keeps the state of each other step; or begin without it, by `eos reset --to` the positions that "
            "`eos status --json` or `eos savepoint inspect` shows",
        )
    python = [m["error"] for m in _PYTHON.finditer(text) if _is_error(m["name"]) and not m["error"].startswith(_NOISE)]
    cause = python[-1] if python else next((line.strip() for line in text.splitlines() if line.strip()), repr(error))
    return PrepareError(f"{doing} failed: {cause}", remedy="`--debug` shows Spark's whole report")
