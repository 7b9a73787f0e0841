"""A host name of its own for a process and its children, as on another machine: Python and Java see it.

The name and /etc/hosts are in namespaces of Linux, which root may create, and other users where the system allows it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

_HOSTS: Final = Path("/etc/hosts")
_WAYS: Final = (("unshare", "--uts", "--mount"), ("unshare", "--user", "--map-root-user", "--uts", "--mount"))
_BECOME: Final = 'hostname "$0" && mount --bind "$1" /etc/hosts && shift && exec "$@"'


@cache
def can_rename() -> bool:
    """Whether a process may have another host name here. Otherwise drivers keep the name of this machine."""
    return _way() is not None


def under_host(name: str, folder: Path) -> list[str]:
    """Return the words before a command that give it this host name. The process keeps its id.

    `folder`: for the file that takes the place of /etc/hosts. Only where `can_rename`.
    """
    way = _way()
    assert way is not None, "unshare is not permitted"
    return _words(way, name, folder)


@cache
def _way() -> tuple[str, ...] | None:
    """Return the first way that gives a process another name; None if there is none."""
    for way in _WAYS if shutil.which("unshare") else ():
        with TemporaryDirectory() as folder:
            tried = subprocess.run(
                [*_words(way, "elsewhere", Path(folder)), "hostname"], capture_output=True, text=True, check=False
            )
        if tried.stdout.strip() == "elsewhere":
            return way
    return None


def _words(way: Sequence[str], name: str, folder: Path) -> list[str]:
    hosts = folder / f"hosts-{name}"
    hosts.write_text(f"{_HOSTS.read_text()}\n127.0.0.1 {name}\n")
    return [*way, "sh", "-c", _BECOME, name, str(hosts)]
