"""Programs of npm that tests need: installed once for each user, and run by Node.js."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from integration_tests.services.maven_jars import cache_folder
from integration_tests.services.state import exclusive, tail
from integration_tests.services.values import ServiceError


@dataclass(frozen=True, slots=True)
class NodeProgram:
    """A script of a package. Immutable."""

    name: str  # of the package
    version: str
    script: str  # its path in the package
    node: str  # the oldest Node.js that runs it, for messages
    install_s: float = 900.0

    def is_installed(self) -> bool:
        """Return whether the package is in the cache, and Node.js is there to run it."""
        return self._script.exists() and shutil.which("node") is not None

    def obtain(self, log: Path) -> Path:
        """Return the script, for `node`. Block some minutes the first time. Raises ServiceError with the remedy."""
        npm = shutil.which("npm")
        with exclusive(self._folder.parent / "lock"):
            if shutil.which("node") is None or npm is None:
                message = f"{self.name} needs `node` and `npm` on the PATH."
                raise ServiceError(f"{message} Install Node.js {self.node} or newer (https://nodejs.org).")
            if not self._script.exists():
                self._install(npm, log)
        return self._script

    @property
    def _folder(self) -> Path:
        return cache_folder() / self.name / self.version

    @property
    def _script(self) -> Path:
        return self._folder / "node_modules" / self.name / self.script

    def _install(self, npm: str, log: Path) -> None:
        partly = self._folder.with_name("partly")
        shutil.rmtree(partly, ignore_errors=True)
        partly.mkdir()
        named = f"{self.name}@{self.version}"
        command = [npm, "install", "--prefix", str(partly), "--ignore-scripts", "--no-audit", "--no-fund", named]
        with log.open("ab") as output:
            try:
                done = subprocess.run(
                    command,
                    cwd=partly,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={**os.environ, "NODE_ENV": "production"},
                    timeout=self.install_s,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise ServiceError(f"{named} was not installed within {self.install_s:.0f} s") from error
        if done.returncode != 0:
            raise ServiceError(f"{named} could not be installed; the end of {log}:\n{tail(log)}")
        partly.rename(self._folder)
