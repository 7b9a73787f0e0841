"""`eos` with the driver's work of each checkpoint timed: `python -m benchmarks.scale.timed FILE run SPEC`.

Writes a line of JSON to FILE for each: its number, seconds by action of the driver (see Driver.durations_s), and two
more: "Acknowledgements", which are read once Spark's job has ended, as a part of "RunWriters", and "Checkpoint", which
is all of it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spark_jobs.batch import batch as job
from spark_jobs.cli import main
from spark_jobs.observe.report import CheckpointReport
from spark_jobs.run.checkpoints import Checkpoints, NumberedBatch

_READING = ("committables", "measured", "by_sink")
"""What spark_jobs.batch.batch calls between the end of the job and the decision."""


def _time(file: Path) -> None:
    complete, reading_s = Checkpoints.complete, [0.0]

    def timed(call: Callable[..., Any]) -> Callable[..., Any]:
        def read(*arguments: Any) -> Any:
            before_s = time.perf_counter()
            answer = call(*arguments)
            reading_s[0] += time.perf_counter() - before_s
            return answer

        return read

    def timed_complete(self: Checkpoints, batch: NumberedBatch) -> CheckpointReport:
        reading_s[0], before_s = 0.0, time.perf_counter()
        report = complete(self, batch)
        took = {"Acknowledgements": reading_s[0], "Checkpoint": time.perf_counter() - before_s}
        line = {"checkpoint_id": batch.checkpoint_id, **report.durations_s, **took}
        with file.open("a") as lines:
            lines.write(json.dumps(line) + "\n")
        return report

    for name in _READING:
        setattr(job, name, timed(getattr(job, name)))
    Checkpoints.complete = timed_complete  # type: ignore[method-assign]


if __name__ == "__main__":
    _time(Path(sys.argv.pop(1)))
    main()
