"""Several pipelines in one driver: what they must have in common, and how each runs without the others' failures."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final

from pyspark.sql import SparkSession

from connectors.spec import Spec
from eos.errors import ConnectorError, SpecError
from spark_jobs.session.settings import state_settings

_log = logging.getLogger("eos.runner")

_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_POLL_S: Final = 0.2
"""The main thread must wake by itself: Python handles signals there, and the system may give one to another thread."""
FAIR: Final = {"spark.scheduler.mode": "FAIR"}
"""Spark's setting for several pipelines: a long job of one does not keep those of others waiting for its end."""


class PipelinesFailedError(ConnectorError):
    """Some of several pipelines have failed for good; the others have gone on to their own ends."""

    code = "EOS-PIPELINES-FAILED"


def check_together(specs: Sequence[Spec]) -> None:
    """Raise SpecError where these cannot run in one driver. Called before anything is started."""
    first = specs[0]
    for number, spec in enumerate(specs):
        for other in specs[:number]:
            if spec.pipeline == other.pipeline:
                message = f"two specs are of pipeline {spec.pipeline}: each would take over from the other"
                raise SpecError(message, remedy="give them names of their own, or name one of them only")
            if spec.checkpoint.folder.resolve() == other.checkpoint.folder.resolve():
                message = (
                    f"{other.pipeline} and {spec.pipeline} have one checkpoint.location: {spec.checkpoint.location}"
                )
                raise SpecError(message, remedy="give each pipeline a location of its own")
        if spec.spark.model_dump() != first.spark.model_dump():
            message = f"{first.pipeline} and {spec.pipeline} differ in `spark`, and share one session"
            raise SpecError(message, remedy="write the same section `spark` in both, or run them by themselves")
    steps = [spec for spec in specs if spec.has_python_steps]
    for spec in steps[1:]:
        if spec.folder != steps[0].folder:
            message = f"{steps[0].pipeline} and {spec.pipeline} have Python steps in two folders"
            remedy = "put the specs and their modules into one folder: Python knows one module of a name"
            raise SpecError(message, remedy=remedy)


def sessions_of(spark: SparkSession, specs: Sequence[Spec]) -> list[SparkSession]:
    """A session for each, of one Spark: several have views of the same names, and each has its state backend."""
    if len(specs) == 1:
        return [spark]
    made = [spark.newSession() for _ in specs]
    for each, spec in zip(made, specs, strict=True):
        each.conf.set(_PARTITIONS, str(spark.conf.get(_PARTITIONS)))
        for name, value in state_settings(spec).items():
            each.conf.set(name, value)
    return made


def run_all(runs: Mapping[str, Callable[[], None]]) -> None:
    """Run each pipeline, by its name, in a thread of its own; block until all have ended, well or not.

    Raises the error of a pipeline that is alone; PipelinesFailedError where of several some have failed.
    """
    failed: dict[str, BaseException] = {}
    with ThreadPoolExecutor(len(runs), "eos-run") as threads:
        running: dict[Future[None], str] = {threads.submit(run): name for name, run in runs.items()}
        waiting: set[Future[None]] = set(running)
        while waiting:
            done, waiting = wait(waiting, _POLL_S, FIRST_COMPLETED)
            for ended in done:
                if (error := ended.exception()) is not None:
                    failed[running[ended]] = error
                    if len(runs) > 1:  # the others may go on for long
                        _log.error("pipeline=%s failed for good: %s", running[ended], _message(error))
    unforeseen = [error for error in failed.values() if not isinstance(error, ConnectorError)]
    if unforeseen or (failed and len(runs) == 1):
        raise [*unforeseen, *failed.values()][0]
    if failed:
        raise PipelinesFailedError(_told(failed, [name for name in runs if name not in failed]))


def _message(error: BaseException) -> str:
    return error.message if isinstance(error, ConnectorError) else repr(error)


def _told(failed: Mapping[str, BaseException], ended: Sequence[str]) -> str:
    lines = [f"{len(failed)} of {len(failed) + len(ended)} pipelines failed"]
    for name, error in failed.items():
        lines.append(f"  {name}: {_message(error)}")
        if isinstance(error, ConnectorError) and error.remedy:
            lines.append(f"    remedy: {error.remedy}")
        if isinstance(error, ConnectorError):
            lines.append(f"    {error.code}: {error.link}")
    if ended:
        lines.append(f"  ended well: {', '.join(ended)}")
    return "\n".join(lines)
