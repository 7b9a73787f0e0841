"""Calls at several sinks at once."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from eos.errors import ConnectorError, FencedError, IdentityError, LostCommittableError, SinkUnavailableError
from twophase.gather import at_once


def test_all_are_made_at_once() -> None:
    met = threading.Barrier(3)
    assert at_once({name: lambda name=name: (met.wait(10), name)[1] for name in "abc"}) == {  # type: ignore[misc]
        "a": "a",
        "b": "b",
        "c": "c",
    }


def test_an_error_holds_up_nobody_and_the_worst_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    def away() -> None:
        raise SinkUnavailableError("away")

    def another() -> None:
        raise IdentityError("another's")

    with pytest.raises(IdentityError, match="another's"):
        at_once({"a": away, "b": another, "c": lambda: done.append("c")})
    assert done == ["c"]
    assert "sink a failed as well: away" in caplog.text
    with pytest.raises(SinkUnavailableError):
        at_once({"a": away, "c": lambda: done.append("c")})


@pytest.mark.parametrize(
    ("worst", "other"),
    [
        (FencedError, LostCommittableError),  # a newer driver prunes witnesses: what looks lost is not (H12)
        (LostCommittableError, IdentityError),
        (LostCommittableError, SinkUnavailableError),
        (IdentityError, SinkUnavailableError),  # no restart cures it
    ],
)
def test_of_two_errors_the_worse_one_is_raised(worst: type[ConnectorError], other: type[ConnectorError]) -> None:
    def fail(kind: type[ConnectorError]) -> None:
        raise kind("so it is")

    for kinds in ((worst, other), (other, worst)):
        with pytest.raises(worst):
            at_once({name: lambda kind=kind: fail(kind) for name, kind in zip("ab", kinds, strict=True)})  # type: ignore[misc]


def test_it_works_while_the_interpreter_ends() -> None:
    """A job that ends with sinks behind commits there from `atexit`, when a pool takes no work any more."""
    script = """
import atexit
from concurrent.futures import ThreadPoolExecutor
from twophase.gather import at_once
ThreadPoolExecutor().submit(print).result()
atexit.register(lambda: print(at_once({"a": lambda: 1, "b": lambda: 2})))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "{'a': 1, 'b': 2}", done.stderr
