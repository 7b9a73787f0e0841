"""Environment variables that Spark's processes inherit from this process, and that this process does not keep."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def restored(names: Sequence[str]) -> Iterator[None]:
    """Give these variables back the values that they had before the block, also after an error.

    Other variables stay as they are: another thread of the program may have set them meanwhile.
    """
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
