"""The first minute of a user: the wheel in a fresh environment, outside of the checkout, and no services."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from integration_tests.harness.installed import Installed, install
from integration_tests.harness.pipeline_process import child_environment

_SERVICES = {"KAFKA": "localhost:9092", "DATABASE": "mysql+pymysql://user:password@localhost/shop"}

pytestmark = pytest.mark.any_server


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a folder of the user's own that has the name of one of our packages."""
    own = tmp_path / "work" / "connectors"
    own.mkdir(parents=True)
    (own / "__init__.py").write_text("raise RuntimeError('the folder of the user was imported')\n")
    return own.parent


def _eos(installed: Installed, folder: Path, *arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [str(installed.eos), *arguments],
        cwd=folder,
        env=child_environment({"PYTHONPATH": "", **_SERVICES}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_a_spec_is_written_and_validated(installed: Installed, folder: Path) -> None:
    assert _eos(installed, folder, "--version").startswith("eos 0.")
    _eos(installed, folder, "init", "orders.yaml")
    assert "exactly-once" in _eos(installed, folder, "validate", "orders.yaml")


@pytest.mark.timeout(900)
def test_the_demo(installed: Installed, folder: Path) -> None:
    before = set(_demos())
    lines = _eos(installed, folder, "demo").splitlines()
    verdict = json.loads(lines[-1])
    assert verdict["produced"] == verdict["in_sink"] == 10_000
    assert (verdict["lost"], verdict["duplicated"], verdict["unexpected"]) == (0, 0, 0)
    assert verdict["restarts"] >= 2
    assert sum("kill -9 of the driver" in line for line in lines) == 2
    assert [each.name for each in folder.iterdir()] == ["connectors"]
    assert set(_demos()) == before
    assert not _processes_of(installed)


def _demos() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("eos-demo-*"))


def _processes_of(installed: Installed) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                command = entry.joinpath("cmdline").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if str(installed.folder) in command:
                found.append(command)
    return found
