"""Which version this is."""

from __future__ import annotations

from importlib import metadata


def installed_version() -> str:
    """As the package index knows it."""
    try:
        return metadata.version("eos-spark")
    except metadata.PackageNotFoundError:
        return "(not installed, run from its source folder)"
