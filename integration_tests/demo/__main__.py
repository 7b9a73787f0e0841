"""Runs the demo: `python -m integration_tests.demo [embedded|docker|native|auto]`; `scripts/demo` sets it up before."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from pathlib import Path

from integration_tests.demo.errors import DemoError
from integration_tests.demo.place import EMBEDDED, KINDS, place
from integration_tests.demo.play import KILLS, play
from integration_tests.services import ServiceError

_RUNS = Path(__file__).parents[2] / ".demo"


def main(arguments: list[str]) -> int:
    """Exit code: 0 only if the verdict is clean, 130 if interrupted, 2 for a wrong command line."""
    kind = arguments[0] if arguments else EMBEDDED
    if kind not in KINDS or len(arguments) > 1:
        print(f"demo: unknown kind of services {kind!r}: choose one of {', '.join(KINDS)}", file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)  # also where whoever started this had Ctrl-C ignored
    _RUNS.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=_RUNS))
    code = 1
    try:
        code = _perform(kind, folder)
    except (DemoError, ServiceError) as error:
        print(f"demo: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("demo: interrupted; everything that it started is ended", file=sys.stderr)
        code = 130
    finally:
        _clean_up(folder, keep=code == 1)
    return code


def _perform(kind: str, folder: Path) -> int:
    with place(kind, folder) as found:
        print(f"The example job on {found.description}; logs and state in {folder}", flush=True)
        verdict = play(found, folder)
    print(verdict.words(kills=len(KILLS)))
    print(verdict.json(), flush=True)
    return 0 if verdict.clean else 1


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _clean_up(folder: Path, *, keep: bool) -> None:
    """After a failure the logs stay, to be looked at."""
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
        if not any(_RUNS.iterdir()):
            _RUNS.rmdir()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
