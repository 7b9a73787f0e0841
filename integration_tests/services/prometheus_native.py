"""Prometheus as a process of this machine, from Debian's package: scrapes one address for one test."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from integration_tests.services.debian import one_at_a_time, run
from integration_tests.services.state import PROJECT, State, free_port, tail
from integration_tests.services.values import ServiceError

CONFIG: Final = PROJECT / "docker" / "prometheus" / "prometheus.yml"
CREDENTIALS: Final = "eos-metrics-of-compose"  # as CONFIG has them
_PACKAGE: Final = "prometheus"
_TARGET: Final = "eos:8080"  # as CONFIG has it
_READY_S: Final = 60.0
_ANSWER_S: Final = 10.0


class Prometheus:
    """A server with the configuration of docker/prometheus. Use as a context manager: at its end it is gone."""

    def __init__(self, folder: Path, target: str) -> None:
        self._folder = folder
        self._log = folder / "prometheus.log"
        self._url = f"http://127.0.0.1:{free_port(0)}"
        config = CONFIG.read_text()
        assert _TARGET in config
        (folder / CONFIG.name).write_text(config.replace(_TARGET, target).replace("interval: 5s", "interval: 1s"))
        for rules in CONFIG.parent.glob("alerts*.yml"):
            shutil.copy(rules, folder)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an instant query. Raises AssertionError where Prometheus refuses the expression."""
        url = f"{self._url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        try:
            with urllib.request.urlopen(url, timeout=_ANSWER_S) as answer:
                result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from None
        return result

    def __enter__(self) -> Self:
        address = self._url.removeprefix("http://")
        command = [program("prometheus"), f"--config.file={self._folder / CONFIG.name}"]
        command += [f"--storage.tsdb.path={self._folder / 'data'}", f"--web.listen-address={address}"]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, cwd=self._folder)
        deadline = time.monotonic() + _READY_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._end()
                raise ServiceError(f"Prometheus did not start; the end of {self._log}:\n{tail(self._log)}")
            time.sleep(0.05)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=_ANSWER_S):
                return True
        except OSError:
            return False

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()


def program(name: str) -> str:
    """`prometheus` or `promtool`: what is installed, else that of Debian's package, unpacked and not installed.

    An installation would start a server of the distribution's own.
    """
    state = State(_PACKAGE)
    unpacked = state.folder / "unpacked"
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{unpacked / 'usr' / 'bin'}")
    if found is None:
        with state.locked():
            if not unpacked.is_dir():
                _unpack(state.folder, unpacked)
        found = str(unpacked / "usr" / "bin" / name)
    return found


def _unpack(folder: Path, unpacked: Path) -> None:
    if shutil.which("apt-get") is None:
        raise ServiceError("Prometheus is not installed, and there is no apt-get: put `prometheus` on the PATH")
    partly = folder / "partly"
    shutil.rmtree(partly, ignore_errors=True)
    problem = "Prometheus can be installed by hand; its package could not be fetched"
    with one_at_a_time():
        if os.getuid() == 0:
            run(["apt-get", "update", "-qq"], problem)
        run(["apt-get", "download", "-qq", _PACKAGE], problem, folder)
    for package in folder.glob(f"{_PACKAGE}_*.deb"):
        run(["dpkg-deb", "-x", str(package), str(partly)], problem, folder)
        package.unlink()
    partly.rename(unpacked)
