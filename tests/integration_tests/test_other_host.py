"""A process under another host name, which Python and Java see, and which resolves."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from integration_tests.harness.other_host import can_rename, under_host

_LOOK = "import os, socket; print(os.getpid(), socket.gethostname(), socket.gethostbyname(socket.gethostname()))"


@pytest.mark.skipif(not can_rename(), reason="unshare is not permitted")
def test_a_process_has_another_name_and_this_machine_keeps_its_own(tmp_path: Path) -> None:
    here, hosts = socket.gethostname(), Path("/etc/hosts").read_text()
    command = [*under_host("machine-7", tmp_path), sys.executable, "-c", _LOOK]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        shown, _ = process.communicate()
    assert shown.split() == [str(process.pid), "machine-7", "127.0.0.1"]
    assert (socket.gethostname(), Path("/etc/hosts").read_text()) == (here, hosts)
