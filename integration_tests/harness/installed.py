"""A fresh virtual environment with wheels of this project and of plugins. Nothing in it is an editable install.

Other packages come from the environment of this run, behind the fresh one's own: installing them takes minutes, and
proves nothing about a plugin.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from integration_tests.harness.faults import Faults
from integration_tests.harness.pipeline_process import PROJECT, PipelineProcess, child_environment

PLUGINS: Final = tuple(PROJECT / "examples" / name for name in ("plugin_duckdb", "plugin_files_source"))
"""Folders of the plugins that tests install."""
_OUTSIDE: Final = {"PYTHONPATH": ""}
"""Set for each process of the environment, so it sees no file of this work tree."""


@dataclass(frozen=True)
class Installed:
    """A virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.folder / "bin" / "python"

    @property
    def eos(self) -> Path:
        """The command, as its wheel has installed it."""
        return self.folder / "bin" / "eos"

    def call(self, *arguments: str, cwd: Path, timeout_s: float = 900) -> str:
        """Run Python with these arguments, outside of the work tree, and return its output. It must succeed."""
        done = subprocess.run(
            [str(self.python), *arguments],
            cwd=cwd,
            env=child_environment(_OUTSIDE),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, (
            f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        )
        return done.stdout

    def start(self, arguments: Sequence[str], folder: Path, arm: Sequence[str] = ()) -> PipelineProcess:
        """Start `eos` with these arguments, with fault points armed."""
        number = len(list(folder.glob("faults-*")))
        faults = Faults(folder / f"faults-{number}")
        for stem in arm:
            faults.arm(stem)
        log = folder / f"eos-{number}.log"
        return PipelineProcess(arguments, folder, log, faults, _OUTSIDE, [str(self.eos)], self.python)


def install(folder: Path, *plugins: Path) -> Installed:
    """Build wheels of this project and of these folders, and install them into a new environment under `folder`."""
    wheels = [build_wheel(each, folder) for each in (PROJECT, *plugins)]
    made = Installed(folder / "venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made.folder)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(made.python), "install", "--quiet"]
    # Not in the work tree, whose metadata pip would take for an installed distribution.
    options = ["--no-deps", "--no-index", "--ignore-installed", *map(str, wheels)]
    subprocess.run([*pip, *options], check=True, cwd=folder, env=child_environment(_OUTSIDE))
    own = Path(made.call("-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    (own / "behind.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return made


def build_wheel(source: Path, folder: Path) -> Path:
    """Build the wheel of a folder, from a copy of the files that git knows there; return its path."""
    copy, into = folder / f"source-{source.name}", folder / f"wheel-{source.name}"
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=source, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in names:
        if (source / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, copy / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    command = [*pip, "--wheel-dir", str(into), str(copy)]
    subprocess.run(command, check=True, cwd=folder, env=child_environment(_OUTSIDE))
    (wheel,) = into.glob("*.whl")
    return wheel
