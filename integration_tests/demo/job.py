"""The example job as a process: `eos run` on a copy of the example, with fault points that stop it where it is told."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from integration_tests.demo.place import Place
from integration_tests.harness.faults import Faults
from integration_tests.harness.oracle import SinkTable
from integration_tests.harness.pipeline_process import PipelineProcess
from twophase.codec import decode_head
from twophase.head_value import HeadValue
from twophase.local_head import LocalHead

EXAMPLE = Path(__file__).parents[2] / "examples" / "eos"

_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For Java: a driver that lives for half a minute gains nothing from thorough compilation, which halves its start."""


class Job:
    """The job over its whole life, from run to run. Use as a context manager: at its end none of its processes lives.

    Args:
        folder: gets a copy of the example, with everything that the job keeps, and the drivers' logs.
        place: where its records come from and its rows go.
        changes: of the spec's text, from and to.
    """

    def __init__(self, folder: Path, place: Place, changes: Sequence[tuple[str, str]] = ()) -> None:
        self._folder = folder
        self._place = place
        self._spec = _copy(folder, place, changes)
        self.drivers: list[PipelineProcess] = []

    def start(self, fault: str | None) -> PipelineProcess:
        """Start the driver. It stops at the point `fault`, if that is given, and waits there to be killed."""
        number = len(self.drivers) + 1
        faults = Faults(self._folder / f"faults-{number}")
        if fault is not None:
            faults.arm(fault)
        environment = {
            "KAFKA": self._place.bootstrap,
            "DATABASE": self._place.database,
            "JDK_JAVA_OPTIONS": f"{_SHORT_LIVED} {os.environ.get('JDK_JAVA_OPTIONS', '')}".strip(),
        }
        log = self._folder / f"driver-{number}.log"
        driver = PipelineProcess(["run", str(self._spec)], self._folder, log, faults, environment)
        self.drivers.append(driver)
        return driver

    @property
    def starts(self) -> int:
        """How often the pipeline was started, by a driver or within one: each start is an epoch of its own."""
        return self._head().epoch

    def prepared(self) -> list[str]:
        """Transactions of this job that wait in the database for their end; SQLite has none."""
        if self._place.url.startswith("sqlite"):
            return []
        return SinkTable(self._place.url, "eos").prepared(self._head().incarnation)

    def close(self) -> None:
        """Kill whatever still lives, and roll back what it left prepared."""
        for driver in self.drivers:
            driver.kill()
        if not self._place.url.startswith("sqlite") and LocalHead(self._location).read() is not None:
            SinkTable(self._place.url, "eos").roll_back(self._head().incarnation)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _location(self) -> Path:
        return self._folder / "checkpoints" / "eos"

    def _head(self) -> HeadValue:
        found = LocalHead(self._location).read()
        assert found is not None, f"there is no head at {self._location}"
        return decode_head(found.value)


def _copy(folder: Path, place: Place, changes: Sequence[tuple[str, str]]) -> Path:
    shutil.copy(EXAMPLE / "chain.py", folder)
    text = (EXAMPLE / place.spec).read_text()
    for old, new in (("topics: [eos]", f"topics: [{place.topic}]"), *changes):
        assert old in text, f"{place.spec} does not say {old!r}"
        text = text.replace(old, new)
    spec = folder / place.spec
    spec.write_text(text)
    return spec
