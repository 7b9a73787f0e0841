"""Streaming jobs of one's own as real processes: the examples, and what they read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from integration_tests.harness.fast_start import fast_start
from integration_tests.harness.faults import Faults
from integration_tests.harness.pipeline_process import EOS, PROJECT, PipelineProcess
from integration_tests.harness.workload import Row

EXAMPLES: Final = PROJECT / "examples" / "any_job"
FILES: Final = 8
ROWS: Final = 100  # of a file, which is a batch


class Jobs:
    """The runs of one job, whose Spark checkpoint is `spark` in its folder."""

    def __init__(self, folder: Path, database: str) -> None:
        self._folder = folder
        self.environment = {**fast_start(), "SINK_URL": database}
        self._started: list[PipelineProcess] = []
        (folder / "sink.yaml").write_text((EXAMPLES / "sink.yaml").read_text())

    def start(self, job: Path, *arguments: str, arm: Sequence[str] = (), checkpoint: str = "spark") -> PipelineProcess:
        """Start it with these fault points armed.

        `checkpoint`: Spark's, a name in the folder or a URL.
        """
        place = checkpoint if "://" in checkpoint else str(self._folder / checkpoint)
        every = [str(self._folder / "sink.yaml"), place, *arguments]
        return self._start(every, arm, [str(job)])

    def command(self, *arguments: str, arm: Sequence[str] = ()) -> PipelineProcess:
        """Start `eos` with these arguments and fault points."""
        return self._start(arguments, arm)

    def _start(self, every: Sequence[str], arm: Sequence[str], program: Sequence[str] = EOS) -> PipelineProcess:
        number = len(self._started)
        faults = Faults(self._folder / f"faults-{number}")
        for stem in arm:
            faults.arm(stem)
        log = self._folder / f"run-{number}.log"
        self._started.append(PipelineProcess(every, self._folder, log, faults, self.environment, program))
        return self._started[-1]

    def close(self) -> None:
        """Kill what still lives."""
        for process in self._started:
            process.kill()


def write_files(folder: Path) -> Counter[Row]:
    """Write the files; returns the rows that must come of them."""
    folder.mkdir(parents=True)
    rows: Counter[Row] = Counter()
    for file in range(FILES):
        ids = range(file * ROWS, (file + 1) * ROWS)
        added: list[Row] = [(number, f"w{number % 7}", f"row {number} of file {file}") for number in ids]
        rows.update(added)
        lines = [json.dumps(dict(zip(("id", "word", "payload"), row, strict=True))) for row in added]
        (folder / f"{file}.json").write_text("\n".join(lines))
    return rows
