"""A server that is gone without a word: its machine is off, or the way to it is cut. Its connections look idle.

TCP itself finds out: what is sent is not confirmed, and where nothing is sent, it asks now and then. By default both
take a quarter of an hour and more. How long a statement may take has nothing to do with it, since the kernel answers;
but a server that takes nothing at all of what is being sent for so long counts as gone, too.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from typing import Final

NOTICED_S: Final = 30
"""After so long a connection is given up."""

IDLE_S: Final = 10
ASK_EVERY_S: Final = 5
ASK_TIMES: Final = (NOTICED_S - IDLE_S) // ASK_EVERY_S


def socket_options(family: int) -> Iterator[tuple[int, int]]:
    """Options of TCP, with their values; none for a socket of this machine's own, or where the system lacks them."""
    if sys.platform == "linux" and family in (socket.AF_INET, socket.AF_INET6):
        yield socket.TCP_USER_TIMEOUT, NOTICED_S * 1000
        yield socket.TCP_KEEPIDLE, IDLE_S
        yield socket.TCP_KEEPINTVL, ASK_EVERY_S
        yield socket.TCP_KEEPCNT, ASK_TIMES
