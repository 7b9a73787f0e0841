"""Errors that end the demo early."""

from __future__ import annotations


class DemoError(Exception):
    """A demo that cannot continue. The message says why, and what to do."""
