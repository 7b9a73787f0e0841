"""A demo from its first line to its exit code: a folder, a place, the play, and the cleaning up."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from spark_jobs.demo.place import DemoError, Place
from spark_jobs.demo.play import KILLS, play


def perform(arrange: Callable[[Path], AbstractContextManager[Place]]) -> int:
    """Run the demo at the place that `arrange` prepares in a folder. Call it in the main thread.

    Returns 0 only if every record is in the table exactly once, 130 after an interruption, and 1 otherwise. The folder
    is kept after a failure only.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)  # also where the parent had Ctrl-C ignored
    folder = Path(tempfile.mkdtemp(prefix="eos-demo-"))
    code = 1
    try:
        code = _perform(arrange, folder)
    except (DemoError, TimeoutError) as error:
        print(f"demo: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("demo: interrupted; all processes of the demo have ended", file=sys.stderr)
        code = 130
    finally:
        if code != 1:
            shutil.rmtree(folder, ignore_errors=True)
    return code


def _perform(arrange: Callable[[Path], AbstractContextManager[Place]], folder: Path) -> int:
    with arrange(folder) as place:
        print(f"The example job on {place.description}; logs and state in {folder}", flush=True)
        verdict = play(place, folder)
    print(verdict.words(kills=len(KILLS)))
    print(verdict.json(), flush=True)
    return 0 if verdict.clean else 1


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
