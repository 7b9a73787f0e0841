"""Programs that tests need, built by Go from source text of the module proxy: once for each user."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from integration_tests.services.maven_jars import cache_folder
from integration_tests.services.state import exclusive, tail
from integration_tests.services.values import ServiceError

_GO: Final = "1.26"
"""The oldest Go that builds all of them."""

_REPLACED: Final = re.compile(r"(\S+) => \.{1,2}/")


@dataclass(frozen=True, slots=True)
class GoProgram:
    """A main package of a module. Immutable."""

    name: str
    package: str
    version: str
    build_s: float = 1800.0  # on two slow cores, after the module proxy has sent its packages
    siblings: str = ""  # version of the modules that go.mod of the module replaces with folders of its repository
    flags: Sequence[str] = ()
    source: Path | None = None  # of a main package of this project that uses the module `package`

    def is_built(self) -> bool:
        """Return whether the program is in the cache."""
        return self._built.exists()

    def is_obtainable(self) -> bool:
        """Return whether the program is in the cache, or Go can build it."""
        return self.is_built() or shutil.which("go") is not None

    def obtain(self, log: Path) -> Path:
        """Return its path. Block some minutes the first time, for its build.

        The user's other work trees find it in the cache. Raises ServiceError with the remedy where it cannot be built.
        """
        with exclusive(self._built.parent / "lock"):
            if not self._built.exists():
                self._build(log)
        return self._built

    @property
    def _built(self) -> Path:
        digest = f"-{hashlib.sha256(self.source.read_bytes()).hexdigest()[:12]}" if self.source else ""
        return cache_folder() / self.name / f"{self.version}{digest}" / self.name

    def _build(self, log: Path) -> None:
        go = shutil.which("go")
        if go is None:
            message = f"{self.name} is built from its source text, and `go` is not on the PATH."
            raise ServiceError(f"{message} Install Go {_GO} or newer (https://go.dev/doc/install).")
        partly = self._built.with_name("partly")
        shutil.rmtree(partly, ignore_errors=True)
        partly.mkdir()
        environment = {**os.environ, "GOBIN": str(partly / "bin"), "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod"}
        with log.open("ab") as output:
            try:
                done = subprocess.run(
                    self._command(go, partly),
                    cwd=partly,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environment,
                    timeout=self.build_s,
                    check=False,
                )
            except subprocess.CalledProcessError as error:
                raise ServiceError(f"{self._named} is not in the module proxy:\n{error.stderr.decode()}") from error
            except subprocess.TimeoutExpired as error:
                message = f"{self.name} was not built within {self.build_s:.0f} s"
                raise ServiceError(f"{message}; run: go install {self._named}") from error
        found = [*(partly / "bin").glob("*")]
        if done.returncode != 0 or len(found) != 1:
            raise ServiceError(
                f"{self.name} could not be built (go install {self._named}); the end of {log}:\n{tail(log)}\n"
                f"  It needs Go {_GO} or newer and a module proxy that answers (see `go env GOPROXY`)."
            )
        found[0].rename(self._built)
        shutil.rmtree(partly)

    def _command(self, go: str, folder: Path) -> list[str]:
        """Return the command that builds it. Raises CalledProcessError where the module proxy does not answer."""
        if self.source is not None:
            (folder / "go.mod").write_text(f"module around\n\ngo {_GO}\n\nrequire {self.package} {self.version}\n")
            shutil.copy(self.source, folder)
            return [go, "install", *self.flags, "."]
        if not self.siblings:
            return [go, "install", *self.flags, self._named]
        # Go installs no module that replaces others with folders. Inside another module it takes their releases.
        module = self.package.partition("/cmd/")[0]
        command = [go, "mod", "download", "-json", f"{module}@{self.version}"]
        found = json.loads(subprocess.run(command, cwd="/", capture_output=True, check=True).stdout)
        replaced = _REPLACED.findall(Path(found["GoMod"]).read_text())
        lines = [f"replace {each} => {each} {self.siblings}" for each in replaced]
        text = ["module around", f"go {_GO}", f"require {module} {self.version}", *lines]
        (folder / "go.mod").write_text("\n".join(text) + "\n")
        return [go, "install", *self.flags, self.package]

    @property
    def _named(self) -> str:
        return f"{self.package}@{self.version}"
