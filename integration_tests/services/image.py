"""The product's image, built from docker/Dockerfile; its base made here where no registry can be reached."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from integration_tests.services.state import PROJECT
from integration_tests.services.values import ServiceError

TAG: Final = "eos:test"
_BASE: Final = "python:3.12-slim-bookworm"  # as docker/Dockerfile has it
_MADE_BASE: Final = "eos-base:bookworm"
_OF_THIS_SITE: Final = ("etc/ssl/certs/ca-certificates.crt", "etc/pip.conf")
"""What packages may only be reached with."""


def build() -> str:
    """Build it, two minutes the first time and less after a change of the code; returns its tag."""
    base = os.environ.get("EOS_IMAGE_BASE") or _base()
    _run(["docker", "build", "--build-arg", f"BASE={base}", "-f", "docker/Dockerfile", "-t", TAG, "."])
    return TAG


def _base() -> str:
    for image in (_BASE, _MADE_BASE):
        if _succeeds(["docker", "image", "inspect", image]):
            return image
    return _BASE if _succeeds(["docker", "pull", "-q", _BASE]) else _make_base()


def _make_base() -> str:
    """Debian with Python, from its packages. Needs root and debootstrap; takes two minutes."""
    if os.getuid() != 0 or shutil.which("debootstrap") is None:
        message = f"{_BASE} cannot be pulled. Name another base by EOS_IMAGE_BASE, or install debootstrap and be root"
        raise ServiceError(message)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        root = Path(folder, "root")
        packages = "--include=python3,python3-venv,ca-certificates"
        _run(["debootstrap", "--variant=minbase", packages, "bookworm", str(root)])
        for path in _OF_THIS_SITE:
            if Path("/", path).is_file():
                shutil.copy(Path("/", path), root / path)
        _run(["bash", "-c", f"set -o pipefail; tar -C {root} -c . | docker import - {_MADE_BASE}"])
    return _MADE_BASE


def _succeeds(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ServiceError(f"`{' '.join(command)}` failed:\n{(done.stderr or done.stdout)[-3000:]}")
