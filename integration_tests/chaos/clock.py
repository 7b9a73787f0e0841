"""The wall clock of the product's own processes, which can jump; the machine's is never touched."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

from integration_tests.services.debian import install
from integration_tests.services.values import ServiceError

_SOURCE: Final = Path(__file__).with_suffix(".c")
_PACKAGES: Final = ("gcc", "libc6-dev")


class Clock:
    """`environment` is for a process whose clock this is. `is_real`: otherwise there is no compiler, and no jump."""

    def __init__(self, folder: Path) -> None:
        self._offset = folder / "clock"
        self._offset.write_bytes(_seconds(0))
        library = folder / "clock.so"
        self.is_real = _compiled(library)
        self.environment = {"LD_PRELOAD": str(library), "EOS_CLOCK": str(self._offset)}

    def jump(self, offset_s: int) -> None:
        """So many seconds before or behind the machine's clock, from now on."""
        with self._offset.open("r+b") as file:  # in place: processes have it mapped
            file.write(_seconds(offset_s))


def _seconds(offset_s: int) -> bytes:
    return struct.pack("@l", offset_s)


def _compiled(library: Path) -> bool:
    if shutil.which("cc") is None:
        try:
            install("a C compiler", _PACKAGES)
        except ServiceError:
            return False
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-o", library, _SOURCE, "-ldl"], check=True)
    return True
