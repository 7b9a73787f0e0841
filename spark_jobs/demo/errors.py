"""Errors that end the demo early."""

from __future__ import annotations


class DemoError(Exception):
    """A demo that cannot continue. The message has the reason and the remedy."""
