"""A driver under supervision, as systemd would have it: ended for whatever reason, it is started again."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from integration_tests.harness.faults import Faults
from integration_tests.harness.pipeline_process import PipelineProcess

_AGAIN_S: Final = 0.5
_POLL_S: Final = 0.1
_NEVER: Final = ("eos repair", "eos reset", "another incarnation")
_COMMITTED: Final = "state=committed"
_STANDBY: Final = "has built its query"  # which a standby says once it is warm


class Supervised:
    """Use `watching` around the time in which it is to run. `exits`: how often it ended by itself, by exit code.

    `surprises`: of those that ended by themselves, what no fault explains; a start that goes well later cures nothing.
    `has_standby`: once it has committed a checkpoint, another driver waits beside it, and is the newest one as soon as
    this one has ended. Not earlier: it would need both cores to start, which it would not take from another machine.
    """

    def __init__(
        self, folder: Path, spec: Mapping[str, Any], environment: Mapping[str, str], *, has_standby: bool = False
    ) -> None:
        self.folder = folder
        self.exits: Counter[int] = Counter()
        self.surprises: list[str] = []
        self._environment = environment
        self._started: list[PipelineProcess] = []
        self._watches = threading.Lock()
        self._over = threading.Event()
        self._current: PipelineProcess | None = None
        self._may_have_standby = has_standby
        self._standby: PipelineProcess | None = None
        self.spec = folder / "pipeline.yaml"
        self.spec.write_text(json.dumps(spec, indent=2))

    @property
    def current(self) -> PipelineProcess:
        """The newest driver."""
        assert self._current is not None
        return self._current

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Start it, and see to it that it runs; at the end nothing of it lives."""
        self.start()
        thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            for each in self._started:
                each.kill()

    @contextmanager
    def by_hand(self) -> Iterator[None]:
        """Nothing is started but what the caller starts."""
        with self._watches:
            yield

    def start(
        self, command: str = "run", *options: str, of: str | None = None, arm: Sequence[str] = ()
    ) -> PipelineProcess:
        """Start `eos <command>` of the spec, or of what `of` names; with `run` it is watched from now on."""
        number = len(self._started)
        faults = Faults(self.folder / f"faults-{number}")
        for stem in arm:
            faults.arm(stem)
        log = self.folder / f"{command.replace(' ', '-')}-{number}.log"
        arguments = [*command.split(), of or str(self.spec), *options]
        process = PipelineProcess(arguments, self.folder, log, faults, self._environment)
        self._started.append(process)
        if command == "run":
            self._current = process
        return process

    def watch(self, process: PipelineProcess) -> None:
        """From now on this one is the driver that is to run."""
        self._current = process

    def has_standby(self) -> bool:
        """Whether a driver waits that is warm."""
        standby = self._standby
        return standby is not None and standby.exit_code is None and _STANDBY in standby.output()

    def finish(self) -> int:
        """Stop it cleanly; returns its exit code."""
        self._over.set()
        with self._watches:
            if self._standby is not None:
                self._standby.kill()
            self.current.terminate()
            return self.current.wait()

    def _judge(self, code: int) -> None:
        """It may end because something is away, or it was killed. Not as if all were done, nor because rows are lost,
        or are another's: nobody took any while it was watched."""
        said = [line for line in self.current.output().splitlines() if line.startswith(("error: ", "  remedy: "))]
        if code == 0 or any(words in line for line in said for words in _NEVER):
            self.surprises.append(f"a driver ended with {code} and {said}: see {self.current.log}")

    def _watch(self) -> None:
        while not self._over.wait(_POLL_S):
            with self._watches:
                code = self.current.exit_code
                if code is not None and not self._over.is_set():
                    self.exits[code] += 1
                    self._judge(code)
                    self.current.kill()  # what it has left behind, as a container's end does
                    self._start_successor()
                elif self._may_have_standby and self._standby is None and _COMMITTED in self.current.output():
                    current = self._current
                    self._standby = self.start("run", "--standby")
                    self._current = current

    def _start_successor(self) -> None:
        """With a standby that is the standby, which has begun by itself."""
        standby, self._standby = self._standby, None
        if standby is not None and standby.exit_code is None:
            self._current = standby
        else:
            time.sleep(_AGAIN_S)
            self.start()
