"""The wall clock of the product's own processes, which can jump (libfaketime); the machine's is never touched."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from integration_tests.services.debian import install
from integration_tests.services.values import ServiceError

_NAMES: Final = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/local/lib/faketime/libfaketimeMT.so.1")


class Clock:
    """`environment` is for a process whose clock this is. `is_real`: otherwise it cannot jump."""

    def __init__(self, folder: Path) -> None:
        self._offset = folder / "clock"
        library = _library()
        self.is_real = library is not None
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._offset),
            "FAKETIME_CACHE_DURATION": "1",  # seconds until a jump is seen
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
        }
        self.jump("+0")

    def jump(self, offset: str) -> None:
        """So many seconds before or behind the machine's clock, from now on: `+3600`, `-40`."""
        fresh = self._offset.with_suffix(".new")
        fresh.write_text(f"{offset}\n")
        fresh.replace(self._offset)


def _library() -> Path | None:
    if (found := _found()) is None:
        try:
            install("libfaketime", ["libfaketime"])
        except ServiceError:
            return None
    return found or _found()


def _found() -> Path | None:
    return next((path for name in _NAMES for path in Path("/").glob(name.removeprefix("/"))), None)
