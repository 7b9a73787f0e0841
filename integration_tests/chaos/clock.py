"""The wall clock of the product's own processes, which can jump; the machine's is never touched."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from integration_tests.services.debian import install
from integration_tests.services.values import ServiceError

_SOURCE: Final = Path(__file__).with_suffix(".c")
_PACKAGES: Final = ("gcc", "libc6-dev")
_PROBE_S: Final = 3600


class Clock:
    """`environment` is for a process whose clock this is."""

    def __init__(self, folder: Path) -> None:
        self._offset = folder / "clock"
        self._offset.write_bytes(_seconds(0))
        self._library = folder / "clock.so"
        self.environment = {"LD_PRELOAD": str(self._library), "EOS_CLOCK": str(self._offset)}
        self._is_compiled = _compiled(self._library)

    @property
    def is_real(self) -> bool:
        """Whether processes see it jump; asked of one. Otherwise there is no compiler."""
        return self._is_compiled and self._jumps()

    def jump(self, offset_s: int) -> None:
        """So many seconds before or behind the machine's clock, from now on."""
        with self._offset.open("r+b") as file:  # in place: processes have it mapped
            file.write(_seconds(offset_s))

    def is_of(self, process: int) -> bool:
        """Whether this process goes by it."""
        try:
            return str(self._library) in Path(f"/proc/{process}/maps").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False

    def _jumps(self) -> bool:
        """Whether a process sees it, in all ways in which Python and Java ask for the time."""
        self.jump(_PROBE_S)
        program = "import time; print(time.time(), time.clock_gettime(time.CLOCK_REALTIME), time.monotonic())"
        environment = {**os.environ, **self.environment}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        self.jump(0)
        *walls, monotonic = map(float, done.stdout.split())
        jumped = all(_PROBE_S / 2 < wall - time.time() < 2 * _PROBE_S for wall in walls)
        return jumped and abs(monotonic - time.monotonic()) < _PROBE_S / 2


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
