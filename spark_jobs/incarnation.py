"""Names of the lives of a pipeline."""

from __future__ import annotations

import secrets
import string

from twophase.ids import INCARNATION_LENGTH


def new_incarnation() -> str:
    """A random incarnation: lower-case letters and digits, about 100 bits."""
    return "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(INCARNATION_LENGTH))
