"""Pipelines run by a program: the same run as `eos run`, without a terminal."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from pyspark import SparkContext
from rich.console import Console

from connectors.spec import Spec, load_spec
from eos.errors import SpecError
from spark_jobs.adapters.sink_spec import masked
from spark_jobs.cli.run import run_pipelines
from spark_jobs.observe.checkpoint_listener import CheckpointListener
from spark_jobs.observe.log_lines import mask_log
from spark_jobs.run.stop_signals import STOPPING
from spark_jobs.session.environment import restored
from spark_jobs.session.spark_session import pyspark_loggers

_OF_PYSPARK: Final = ("SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE")
"""Variables that PySpark sets in this process when a session starts, and reads until the session ends."""


def run(
    *specs: str | Path | Spec,
    until_caught_up: bool = False,
    stop: threading.Event | None = None,
    listener: CheckpointListener | None = None,
) -> None:
    """Run one pipeline, or several in one Spark, as the command `eos run SPEC...` does.

    Called by: a program, from any thread. Call order: `load_spec` first, or pass the paths; one `run` at a time.
    Blocks until every pipeline has ended: after a stop, once it has caught up, or with an error that no restart cures.
    It starts Spark, and ends it before it returns. Progress goes to the loggers under `eos`; nothing is printed.

    SIGINT and SIGTERM stop the pipelines as they stop the command, if the main thread calls `run`: the first signal
    finishes the running checkpoints, the second aborts them. The earlier signal handlers return with the end, and so do
    environment variables, `sys.path` and the levels of PySpark's loggers.

    After a crash of the process, call it once more with the same specs: each pipeline continues after its last
    completed checkpoint, exactly once.

    Args:
        specs: paths of spec files, or specs of `load_spec`. Each names at least one source.
        until_caught_up: end when all records that existed at the start are committed.
        stop: set it in another thread to stop. The running checkpoints finish, and nothing stays prepared.
        listener: gets each checkpoint at least once, after every sink shows it.

    Raises:
        SpecError: a spec is wrong, specs do not fit together, or this process has a Spark session. Nothing was started.
        EosError: the error of the pipeline. Of several pipelines the others go on to their own ends first.
    """
    loaded = [each if isinstance(each, Spec) else load_spec(each) for each in specs]
    _check(loaded)
    mask_log(frozenset().union(*(spec.secrets for spec in loaded)))
    handlers = {number: signal.getsignal(number) for number in STOPPING}
    with ExitStack() as stack, restored(_OF_PYSPARK), _path_kept(loaded), _levels_kept():
        for spec in loaded:
            stack.enter_context(masked(spec))
        try:
            console = Console(quiet=True)
            run_pipelines(loaded, console, until_caught_up=until_caught_up, debug=False, stop=stop, listener=listener)
        finally:
            if threading.current_thread() is threading.main_thread():
                for number, handler in handlers.items():
                    signal.signal(number, handler if handler is not None else signal.SIG_DFL)


@contextmanager
def _path_kept(specs: Sequence[Spec]) -> Iterator[None]:
    """Remove from `sys.path` the folders of the specs' steps, and Spark's temporary folders, which it has deleted."""
    before = {*sys.path}
    folders = {str(spec.folder) for spec in specs}
    try:
        yield
    finally:
        added = [each for each in sys.path if each not in before]
        for path in added:
            if path in folders or not Path(path).exists():
                sys.path.remove(path)


@contextmanager
def _levels_kept() -> Iterator[None]:
    """Give PySpark's loggers back the levels that they had before the block. See `silence_pyspark`."""
    loggers = pyspark_loggers()
    levels = [each.level for each in loggers]
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _check(specs: list[Spec]) -> None:
    if not specs:
        raise SpecError("run needs a spec", remedy="give the path of a spec file")
    for spec in specs:
        if not spec.sources:
            message = f"the spec of pipeline {spec.pipeline} names no sources"
            raise SpecError(message, remedy="give it sources, or use it in a query of your own, with ExactlyOnce")
    if SparkContext._active_spark_context is not None:
        message = "this process has a Spark session, and run starts its own"
        raise SpecError(message, remedy="stop the session first, or use ExactlyOnce in a query of that session")
