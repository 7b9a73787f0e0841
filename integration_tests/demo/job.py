"""The example job, with drivers that tests stop, watch and kill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from integration_tests.harness.faults import Faults
from integration_tests.harness.pipeline_process import PipelineProcess
from spark_jobs.demo import job
from spark_jobs.demo.place import Place


class Job(job.Job[PipelineProcess]):
    """The job of the demo. Its drivers have the fault points of the tests."""

    def __init__(self, folder: Path, place: Place, changes: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(folder, place, _launch, changes)


def _launch(spec: Path, log: Path, environment: Mapping[str, str]) -> PipelineProcess:
    faults = Faults(Path(environment["EOS_FAULT_DIR"]))
    return PipelineProcess(["run", str(spec)], spec.parent, log, faults, environment)
