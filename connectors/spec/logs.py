"""Where the logs of a pipeline's sinks lie, and how they are applied unless the spec says otherwise."""

from __future__ import annotations

from typing import Final

LOG: Final = "log"
"""Folder of all logs of a pipeline, below its checkpoint location."""

SLOTS: Final = 2
"""That apply a checkpoint at once."""
