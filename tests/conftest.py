"""Settings of all unit tests, and what several of them start."""

from __future__ import annotations

from hypothesis import settings

from tests.object_store import bucket, hasty, s3_port, wire

__all__ = ["bucket", "hasty", "s3_port", "wire"]

settings.register_profile("eos", deadline=None)  # a busy machine is no failure
settings.load_profile("eos")
