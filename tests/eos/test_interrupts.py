"""Ctrl-C in the first second of the command: it ends, and prints nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from spark_jobs.cli import run_command_line

ROOT = Path(__file__).parents[2]

_AT_AN_IMPORT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)
            print("the import of {module} went on")

sys.meta_path.insert(0, Interrupting())
sys.argv = ["{program}", "schema"]
{ignored}
from eos.__main__ import main
main()
"""


def _run(module: str, program: str = "eos", ignored: str = "") -> subprocess.CompletedProcess[str]:
    code = _AT_AN_IMPORT.format(module=module, program=program, ignored=ignored)
    return _python(code)


def _python(code: str) -> subprocess.CompletedProcess[str]:
    """Run it with Ctrl-C as in a terminal: a shell has its background jobs, and their children, ignore the signal."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        check=False,
    )


@pytest.mark.parametrize("module", ["eos._imports", "typer", "spark_jobs.cli.app"])
def test_ctrl_c_while_the_command_is_imported_ends_it_quietly(module: str) -> None:
    done = _run(module)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_in_a_command_ends_it_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("spark_jobs.cli.installed.inventory", interrupt)
    assert run_command_line(["connectors"]) == 130
    assert capsys.readouterr() == ("", "")


def test_an_ignored_signal_stays_ignored() -> None:
    done = _run("typer", ignored="signal.signal(signal.SIGINT, signal.SIG_IGN)")
    assert done.returncode == 0
    assert done.stdout.startswith("the import of typer went on\n")


def test_a_program_that_imports_eos_keeps_its_handler() -> None:
    code = "import signal, eos; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    done = _python(code)
    assert (done.returncode, done.stdout) == (0, "True\n")
