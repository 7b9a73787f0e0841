"""Settings of all unit tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("eos", deadline=None)  # a busy machine is no failure
settings.load_profile("eos")
