"""Has Spark divide the state of a pipeline anew while it stands still (R2), and brings it to rest before that."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connectors.spec import Spec
from eos.errors import PrepareError, SpecError
from spark_jobs.observe.report import Listener
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.run.runner import Runner
from spark_jobs.session.failures import translate
from twophase.head_value import HeadValue
from twophase.messages import Failed, StateRescaled

_log: Final = logging.getLogger("eos.rescale")

_TELL_S: Final = 2.0


def bring_to_rest(spec: Spec, spark: SparkSession, listener: Listener) -> None:
    """Run what Spark has begun to its end, and read nothing new. Raises what a run raises."""
    checkpoint = spec.checkpoint.model_copy(update={"max_records_per_checkpoint": 0})
    Runner(spec.model_copy(update={"checkpoint": checkpoint}), spark, listener, until_caught_up=True).run()


@dataclass(frozen=True, slots=True)
class Rewriting:
    """See twophase.effects.StateRescaler. Blocks for as long as it takes to read and write the whole state."""

    spark: SparkSession
    log: LocalSparkLog
    tell: Callable[[str], None]  # how far it is, every two seconds

    def rewrite(self, head: HeadValue, checkpoint_id: int, state_partitions: int) -> StateRescaled | Failed:
        """Raises SparkUnavailableError if Spark is gone: what it has begun the same command brings to its end.

        Raises HeadError, IdentityError where the state cannot be kept in the store of the location.
        """
        started_at, incarnation = time.time(), head.incarnation
        self.log.restore_state(head)
        self.log.await_state(checkpoint_id - 1)
        if self.log.state(incarnation).newest_committed < checkpoint_id:
            try:
                self.log.check_divisible(incarnation)
                self._repartition(incarnation, state_partitions)
            except SpecError as error:
                return Failed(error)
            except (PySparkException, Py4JJavaError) as error:
                return Failed(_failure(error, state_partitions))
            except (Py4JError, ConnectionError) as error:
                raise translate(error, "dividing the state") from error
        os.sync()  # Spark does not: what is decided on this must outlast a power cut
        self.log.keep_undecided_state(checkpoint_id)
        return StateRescaled(self.log.offsets_log(incarnation, checkpoint_id), started_at, time.time())

    def drop_plan(self, incarnation: str, checkpoint_id: int) -> None:
        self.log.drop_plan(incarnation, checkpoint_id)

    def _repartition(self, incarnation: str, state_partitions: int) -> None:
        from pyspark.sql.streaming.query import StreamingCheckpointManager  # from Spark 4.2 on

        # Spark's sessions have no way to it in Python yet; its class has.
        self.spark._jsparkSession.streams()  # Spark 4.2 creates its registry of state stores with this object only
        java = self.spark._jsparkSession.sqlContext().streamingCheckpointManager()
        manager = StreamingCheckpointManager(java)
        with ThreadPoolExecutor(1) as pool:
            doing = pool.submit(manager.repartition, f"file://{self.log.folder(incarnation)}", state_partitions)
            while True:
                try:
                    return doing.result(_TELL_S)
                except TimeoutError:
                    self._tell_progress()

    def _tell_progress(self) -> None:
        tracker = self.spark.sparkContext.statusTracker()
        for number in tracker.getActiveStageIds():
            stage = tracker.getStageInfo(number)
            if stage is not None:
                self.tell(f"stage {number}: {stage.numCompletedTasks} of {stage.numTasks} tasks")


def _failure(error: PySparkException | Py4JJavaError, state_partitions: int) -> PrepareError:
    said = str(error) if isinstance(error, PySparkException) else str(error.java_exception.getMessage())
    message = f"dividing the state into {state_partitions} partitions failed: {said.splitlines()[0]}"
    return PrepareError(message, remedy="all is as before, and `eos run` goes on with it; spark.log says more")
