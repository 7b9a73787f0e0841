"""A process under another host name, and drivers that show theirs."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from integration_tests.harness.other_host import can_rename, under_host
from integration_tests.harness.pipeline import Pipeline
from integration_tests.harness.stores import assert_moved
from spark_jobs.observe.history.database import NAME
from spark_jobs.observe.history.filing import WriterThread
from spark_jobs.observe.history.model import Run
from spark_jobs.observe.history.writer import Retention

_LOOK = "import os, socket; print(os.getpid(), socket.gethostname(), socket.gethostbyname(socket.gethostname()))"


@pytest.mark.skipif(not can_rename(), reason="unshare is not permitted")
def test_a_process_has_another_name_and_this_machine_keeps_its_own(tmp_path: Path) -> None:
    here, hosts = socket.gethostname(), Path("/etc/hosts").read_text()
    command = [*under_host("machine-7", tmp_path), sys.executable, "-c", _LOOK]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        shown, _ = process.communicate()
    assert shown.split() == [str(process.pid), "machine-7", "127.0.0.1"]
    assert (socket.gethostname(), Path("/etc/hosts").read_text()) == (here, hosts)


def _pipeline(folder: Path, *hosts: str) -> Pipeline:
    """A pipeline with a driver for each host, in a folder for each."""
    for number, host in enumerate(hosts):
        history = WriterThread(folder / f"machine-{number}" / NAME, Retention())
        history.add(Run("r", host, 1, "1.0", 1.0))
        history.close()
    return cast("Pipeline", SimpleNamespace(folder=folder, processes=hosts))


def test_drivers_that_have_moved_show_it(tmp_path: Path) -> None:
    names = ("machine-0", "machine-1") if can_rename() else (socket.gethostname(),) * 2
    assert_moved(_pipeline(tmp_path, *names))
    for number, hosts in enumerate(((names[0], "machine-0"), ("elsewhere", names[1]), (names[0],), ())):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        with pytest.raises(AssertionError):
            assert_moved(_pipeline(folder, *hosts))
