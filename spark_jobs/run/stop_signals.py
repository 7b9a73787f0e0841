"""SIGINT and SIGTERM as requests to stop: sent to this process, to its JVM, or to both."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started

from spark_jobs.run.control import StopControl

STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(slots=True)
class StopSignals:
    """The first signal lets running checkpoints finish, the second aborts them: either way nothing stays prepared.

    Ctrl-C and many supervisors send one signal to the driver and to its JVM: they are counted by who received them.
    """

    controls: Sequence[StopControl]  # of all pipelines of this process
    _received: Counter[str] = field(default_factory=Counter, init=False)

    def received(self, number: int, by: str) -> None:
        """Only assigns attributes: called by signal handlers, in any thread, anywhere."""
        is_first = not self._received
        self._received[by] += 1
        for control in self.controls:
            asked_otherwise = is_first and bool(control.requested)  # by `eos stop`
            control.abort_running = control.abort_running or asked_otherwise or self._received[by] > 1
            control.requested = f"{signal.Signals(number).name} received"

    def here(self) -> None:
        """Handle this process's signals. Python lets only the main thread do so: in another thread nothing changes."""
        if threading.current_thread() is not threading.main_thread():
            return

        def handle(number: int, _frame: FrameType | None) -> None:
            self.received(number, "driver")

        for number in STOPPING:
            signal.signal(number, handle)

    def in_jvm(self) -> None:
        """Be told of those of the JVM, which runs already and would end of them, and the driver's query with it.

        It is the process that `spark-submit` has become, and the one that a container or a supervisor sends signals to;
        and systemd sends them to all processes of a service.
        """
        gateway, jvm = SparkContext._gateway, SparkContext._jvm
        assert gateway is not None
        assert jvm is not None
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        for number in STOPPING:
            name = signal.Signals(number).name.removeprefix("SIG")
            jvm.sun.misc.Signal.handle(jvm.sun.misc.Signal(name), _Handler(self, number))


class _Handler:
    """Of Java's; called in a thread of the callback server."""

    def __init__(self, signals: StopSignals, number: int) -> None:
        self._signals = signals
        self._number = number

    def handle(self, _signal: Any) -> None:
        self._signals.received(self._number, "JVM")

    class Java:
        implements: Final = ["sun.misc.SignalHandler"]
