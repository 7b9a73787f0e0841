"""A program that runs a pipeline three times: until caught up, from its path, and from another thread until stopped.

python program.py SPEC FOLDER

After a run it prints its number, and goes on when its standard input has a line. `FOLDER/stop` ends the last run.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from eos import load_spec, run


def main(spec: str, folder: str) -> None:
    """Run it."""
    handler, variables, path = signal.getsignal(signal.SIGINT), dict(os.environ), [*sys.path]
    run(spec, until_caught_up=True)
    assert dict(os.environ) == variables
    assert sys.path == path
    assert signal.getsignal(signal.SIGINT) is handler
    _report(1)
    run(load_spec(spec), until_caught_up=True)
    _report(2)
    stop = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(run, spec, stop=stop)
        while not (Path(folder) / "stop").exists() and not running.done():
            time.sleep(0.1)
        stop.set()
        running.result()
    _report(3)


def _report(number: int) -> None:
    print(number, flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
