"""A user's own folder with the name of one of our packages: one sentence, before anything else is imported."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eos._imports import PACKAGES

ROOT = Path(__file__).parents[2]


def _start(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the folder, which stands first on its path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    environment.pop("PYTHONSAFEPATH", None)
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def _sentence(name: str, found: Path, what: str = "folder") -> str:
    return f"Python finds your {what} {found} instead of the package {name!r} of eos: rename it"


def _script(folder: Path) -> str:
    """Write the console script as an installation does, from the entry point in setup.cfg."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    target = dict(
        line.split(" = ") for line in config["options.entry_points"]["console_scripts"].splitlines() if " = " in line
    )["eos"]
    module, _, function = target.partition(":")
    script = folder / "bin" / "eos"
    script.parent.mkdir()
    script.write_text(f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n")
    return str(script)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_folder_of_this_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("raise RuntimeError('imported')\n")
    sentence = _sentence(name, tmp_path / name)

    imported = _start(tmp_path, "-c", "import eos")
    assert imported.returncode == 1
    assert imported.stderr.splitlines()[-1] == f"ImportError: {sentence}"
    for arguments in (["-m", "eos", "--version"], [_script(tmp_path), "--version"]):
        command = _start(tmp_path, *arguments)
        assert (command.returncode, command.stdout, command.stderr) == (2, "", f"error: {sentence}\n")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_file_of_this_name(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text("raise RuntimeError('imported')\n")
    imported = _start(tmp_path, "-c", "from eos import load_spec")
    sentence = _sentence(name, tmp_path / f"{name}.py", "file")
    assert imported.stderr.splitlines()[-1] == f"ImportError: {sentence}"


def test_a_folder_without_modules_is_in_nobodys_way(tmp_path: Path) -> None:
    for name in PACKAGES:
        (tmp_path / name).mkdir()
    done = _start(tmp_path, "-m", "eos", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("eos ")


def test_our_packages_through_a_link_are_ours(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(ROOT)
    done = _start(link, "-c", "import wal, eos; print(wal.__file__)")
    assert (done.returncode, done.stderr) == (0, "")
