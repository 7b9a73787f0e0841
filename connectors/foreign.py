"""Calls of code that a plugin brings: each of its errors becomes one error that names the plugin's part.

Otherwise `sys.exit(0)` in a store would end a run with the exit code 0. A wrong answer would fail later, and the
message would name neither the store nor the call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from eos.bounded import shorten
from eos.errors import ConnectorError, EosError

_MOST_SHOWN: Final = 1_000  # characters of another library's error


@contextmanager
def foreign(where: str, kind: type[ConnectorError], remedy: str) -> Iterator[None]:
    """Raise `kind` for each error in the block that is not an error of the framework. `where`: part and call.

    A KeyboardInterrupt of the main thread is the user's.
    """
    try:
        yield
    except EosError:
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise
        raise kind(f"{where} raised {described(error)}", remedy=remedy) from error


def described(error: BaseException) -> str:
    """Return class and text of any error on one line of bounded length. Its own code may fail."""
    try:
        text = " ".join(shorten(str(error), _MOST_SHOWN).split())
    except Exception:  # noqa: BLE001 `__str__` of a foreign class
        text = ""
    name = type(error).__name__
    return f"{name}: {text}" if text else name
