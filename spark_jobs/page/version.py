"""Which version of this package runs."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """As it is installed."""
    try:
        return metadata.version("eos-spark")
    except metadata.PackageNotFoundError:
        return "unknown"
