"""The time limit of a task of `format("eos")`: no driver of ours can cancel Spark's job there.

A task fails with an error if its next rows, or their end, arrive too late. A task that hangs in a call of the sink
cannot raise one. Its process ends instead, a moment later, and Spark reports a lost Python worker. If the query
produces no rows at all, Spark does not notice the lost worker: it waits for the rows first.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Final

from eos.errors import PrepareError
from spark_jobs.batch.time_limit import ended_after

if TYPE_CHECKING:
    import pyarrow as pa

_GRACE_S: Final = 10.0
_EXIT: Final = 70


@contextmanager
def limited(
    timeout_s: float, rows: Iterator[pa.RecordBatch], grace_s: float = _GRACE_S
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield the rows of a task, which end with PrepareError after `timeout_s`. End the process if the block continues.

    Called in a Python worker of Spark. `checkpoint.timeout` is the limit.
    """
    reason = f"a task ran longer than checkpoint.timeout ({timeout_s:g} s)"

    def end() -> None:
        print(f"{reason}, and its Python worker is ended", file=sys.stderr, flush=True)
        os._exit(_EXIT)

    with ended_after(timeout_s + grace_s, end):
        yield _until(time.monotonic() + timeout_s, rows, reason)


def _until(deadline_s: float, rows: Iterator[pa.RecordBatch], reason: str) -> Iterator[pa.RecordBatch]:
    for batch in chain(rows, [None]):
        if time.monotonic() > deadline_s:
            raise PrepareError(reason, remedy="find out why the query or the sink is slow, or set it longer")
        if batch is not None:
            yield batch
