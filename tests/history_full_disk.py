"""A process whose disk is full for a while, as far as its history goes. Prints how many checkpoints it told."""

from __future__ import annotations

import logging
import resource
import sys
import time
from pathlib import Path

from spark_jobs.observe.history.filing import WriterThread
from spark_jobs.observe.history.retention import Retention
from spark_jobs.observe.history.store import History
from tests.history_values import whole

_LIMIT = 8 * 1024  # bytes of a file: less than a history has when it is begun
_AGAIN_S = 0.05


def run(path: Path, while_full: int) -> int:
    filing = WriterThread(path, Retention(age_s=1e9), _AGAIN_S)
    filing.add(*whole(0))
    while not History(path).checkpoints():
        time.sleep(0.01)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_LIMIT, most))
    for number in range(1, while_full):
        before = time.monotonic()
        filing.add(*whole(number))
        assert time.monotonic() - before < 0.1, "a pipeline waits for its history"
        time.sleep(0.001)
    time.sleep(3 * _AGAIN_S)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    time.sleep(3 * _AGAIN_S)
    filing.add(*whole(while_full))
    filing.close()
    return while_full + 1


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    print(run(Path(sys.argv[1]), int(sys.argv[2])))
