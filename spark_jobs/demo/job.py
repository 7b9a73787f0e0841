"""The example job over several runs: a copy of its files, its drivers, and its head."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Generic, Self, TypeVar

from spark_jobs.demo.driver import FAST_START, Driver, EosRun
from spark_jobs.demo.place import Place
from twophase.codec import decode_head
from twophase.head_value import HeadValue
from twophase.local_head import LocalHead

_IN_WHEEL: Final = Path(__file__).parent / "example"
_IN_CHECKOUT: Final = Path(__file__).parents[2] / "examples" / "eos"
EXAMPLE: Final = _IN_WHEEL if _IN_WHEEL.exists() else _IN_CHECKOUT
"""The folder of the example. setup.py copies it into a wheel."""

D = TypeVar("D", bound=Driver)
Launch = Callable[[Path, Path, Mapping[str, str]], D]
"""Start a driver: the spec, the file for its output, and additional variables of its environment."""


class Job(Generic[D]):
    """The job over several runs. At the end of its context all of its processes have ended.

    Args:
        folder: gets a copy of the example, the job's state, and the drivers' logs.
        place: the source of its records and the target of its rows.
        launch: starts a driver.
        changes: of the spec's text, from and to.
    """

    def __init__(self, folder: Path, place: Place, launch: Launch[D], changes: Sequence[tuple[str, str]] = ()) -> None:
        self._folder = folder
        self._place = place
        self._launch = launch
        self._spec = _copy(folder, place, changes)
        self.drivers: list[D] = []

    def start(self, fault: str | None) -> D:
        """Start a driver. At the fault point `fault`, if given, it stops and waits to be killed."""
        number = len(self.drivers) + 1
        faults = self._folder / f"faults-{number}"
        faults.mkdir()
        if fault is not None:
            (faults / f"{fault}.arm").touch()
        environment = {
            "EOS_FAULT_DIR": str(faults),
            "KAFKA": self._place.bootstrap,
            "DATABASE": self._place.database,
            "JDK_JAVA_OPTIONS": f"{FAST_START} {os.environ.get('JDK_JAVA_OPTIONS', '')}".strip(),
            "PYTHONUNBUFFERED": "1",
        }
        driver = self._launch(self._spec, self._folder / f"driver-{number}.log", environment)
        self.drivers.append(driver)
        return driver

    def is_stopped(self, fault: str) -> bool:
        """Return whether the newest driver waits at a fault point."""
        return (self._folder / f"faults-{len(self.drivers)}" / f"{fault}.stopped").exists()

    @property
    def starts(self) -> int:
        """The number of starts of the pipeline, by a driver or within a driver: each start is an epoch."""
        return self._head().epoch

    def prepared(self) -> list[str]:
        """List the prepared transactions of this job in the database."""
        return self._place.table.prepared(self._head().incarnation)

    def close(self) -> None:
        """Kill all drivers, and roll back the transactions that they left prepared."""
        for driver in self.drivers:
            driver.kill()
        if LocalHead(self._location).read() is not None:
            self._place.table.roll_back(self._head().incarnation)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _location(self) -> Path:
        return self._folder / "checkpoints" / "eos"

    def _head(self) -> HeadValue:
        found = LocalHead(self._location).read()
        assert found is not None, f"no head at {self._location}"
        return decode_head(found.value)


def of_eos_run(folder: Path, place: Place, changes: Sequence[tuple[str, str]] = ()) -> Job[EosRun]:
    """Return a job whose drivers are `eos run` of this installation."""
    return Job(folder, place, EosRun, changes)


def _copy(folder: Path, place: Place, changes: Sequence[tuple[str, str]]) -> Path:
    shutil.copy(EXAMPLE / "chain.py", folder)
    text = (EXAMPLE / place.spec).read_text()
    for old, new in (("topics: [eos]", f"topics: [{place.topic}]"), *changes):
        assert old in text, f"{place.spec} lacks {old!r}"
        text = text.replace(old, new)
    spec = folder / place.spec
    spec.write_text(text)
    return spec
