"""Code of plugins that raises or returns anything: one error that names the part and the call."""

from __future__ import annotations

import threading

import pytest

from connectors.foreign import described, foreign
from eos.errors import BadRowError, TargetError


class Odd(Exception):
    def __str__(self) -> str:
        raise ValueError

    def __reduce__(self) -> str:
        raise TypeError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SystemExit(0), "SystemExit: 0"),
        (Odd(), "Odd"),
        (ValueError("a\nb" + "x" * 10_000_000), "ValueError: a b"),
        (StopIteration(), "StopIteration"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_of_other_code_becomes_one_of_the_framework(error: BaseException, text: str) -> None:
    with pytest.raises(TargetError) as raised, foreign("sink out: `apply`", TargetError, "correct it"):
        raise error
    assert raised.value.message.startswith(f"sink out: `apply` raised {text}")
    assert len(raised.value.message) < 1_100
    assert raised.value.__cause__ is error
    assert described(error).startswith(text)


def test_an_error_of_the_framework_stays_itself() -> None:
    with pytest.raises(BadRowError, match="row 1"), foreign("x", TargetError, ""):
        raise BadRowError("row 1")


def test_an_interrupt_is_the_users_on_the_main_thread_only() -> None:
    with pytest.raises(KeyboardInterrupt), foreign("x", TargetError, ""):
        raise KeyboardInterrupt
    found: list[type[BaseException]] = []

    def interrupted() -> None:
        try:
            with foreign("x", TargetError, ""):
                raise KeyboardInterrupt
        except TargetError as error:
            found.append(type(error))

    thread = threading.Thread(target=interrupted)
    thread.start()
    thread.join()
    assert found == [TargetError]
