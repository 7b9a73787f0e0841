"""The product's image beside Kafka and MySQL in containers: killed, stopped, and exact."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration_tests.harness.faults import Faults
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.services import Services
from integration_tests.services.containers import Containers
from integration_tests.services.image import build

pytestmark = [pytest.mark.any_server, pytest.mark.image]

_RECORDS = 6 * CHECKPOINT_RECORDS
_USER = 10001
_PATIENCE_S = 240.0


class _Container:
    """`eos run` in a container of the image, with the pipeline's folder."""

    def __init__(
        self, image: str, network: str, pipeline: Pipeline, *, arm: str = "", options: tuple[str, ...] = ()
    ) -> None:
        self.name = f"eos-test-{secrets.token_hex(5)}"
        self.faults = Faults(pipeline.folder / self.name)
        if arm:
            self.faults.arm(arm)
        pipeline.write_spec()
        _own(pipeline.folder)
        variables = {**pipeline.environment, "EOS_FAULT_DIR": f"/pipeline/{self.name}"}
        flags = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
        where = ["--network", network, "-v", f"{pipeline.folder}:/pipeline"]
        _docker("run", "-d", "--name", self.name, *where, *flags, image, "run", "/pipeline/pipeline.yaml", *options)

    def await_point(self, stem: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while self.faults.stopped(stem) is None:
            assert self.running(), self.output()
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.1)

    def await_health(self) -> None:
        """Until its page says that the query runs."""
        deadline = time.monotonic() + _PATIENCE_S
        while (health := _docker("inspect", "--format", "{{.State.Health.Status}}", self.name)) != "healthy":
            assert time.monotonic() < deadline, f"{health}\n{self.output()}"
            time.sleep(0.5)

    def running(self) -> bool:
        return _docker("inspect", "--format", "{{.State.Running}}", self.name) == "true"

    def wait(self) -> int:
        """Its exit code."""
        deadline = time.monotonic() + _PATIENCE_S
        while self.running():
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.1)
        return int(_docker("inspect", "--format", "{{.State.ExitCode}}", self.name))

    def output(self) -> str:
        return subprocess.run(["docker", "logs", self.name], capture_output=True, text=True, check=True).stdout


def _docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _own(folder: Path) -> None:
    """The image's user is nobody here."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, _USER, _USER)


@pytest.fixture(scope="session")
def image() -> str:
    """The image's tag."""
    return build()


@pytest.fixture
def started() -> Iterator[list[_Container]]:
    """Containers that are removed at the end."""
    containers: list[_Container] = []
    yield containers
    for each in containers:
        _docker("rm", "-f", "-v", each.name)


@pytest.mark.timeout(1200)
def test_killed_and_stopped(services: Services, pipeline: Pipeline, image: str, started: list[_Container]) -> None:
    control = services.control
    assert isinstance(control, Containers), "the image is tested with --kind docker"
    pipeline.source["bootstrap_servers"] = "kafka:29092"
    pipeline.environment["SINK_URL"] = (
        f"mysql+pymysql://eos:eos@mysql:3306/{pipeline.environment['SINK_URL'].rpartition('/')[2]}?ssl_verify_cert=false"
    )
    pipeline.workload.produce(_RECORDS)

    def start(*options: str, arm: str = "") -> _Container:
        started.append(_Container(image, control.network, pipeline, arm=arm, options=options))
        return started[-1]

    killed = start(arm="before-decide@1")
    killed.await_point("before-decide@1")
    _docker("kill", killed.name)
    assert killed.wait() == 137
    assert pipeline.verdict().in_sink == CHECKPOINT_RECORDS

    stopped = start("--ui", "--ui-host", "0.0.0.0", arm="before-decide@3")
    stopped.await_point("before-decide@3")
    stopped.await_health()
    _docker("kill", "--signal", "TERM", stopped.name)
    stopped.faults.release("before-decide@3")
    assert stopped.wait() == 0, stopped.output()
    assert pipeline.prepared() == []
    verdict = pipeline.verdict()
    assert verdict.clean, str(verdict)
    assert verdict.in_sink == 4 * CHECKPOINT_RECORDS, str(verdict)

    assert start("--until-caught-up").wait() == 0, started[-1].output()
    pipeline.assert_exact(at_least=_RECORDS)
