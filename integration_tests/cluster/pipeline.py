"""A pipeline under test whose tasks run on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from integration_tests.cluster.standalone import Cluster
from integration_tests.harness.fast_start import fast_start
from integration_tests.harness.pipeline import Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess
from spark_jobs.demo.driver import FAST_START


def cluster_conf(cluster: Cluster) -> dict[str, str]:
    """Spark's settings for one executor of one core on each worker."""
    return {
        **cluster.conf,
        "spark.pyspark.python": str(cluster.python),
        "spark.executor.cores": "1",
        "spark.executor.memory": "768m",
        "spark.executor.extraJavaOptions": FAST_START,
        "spark.sql.shuffle.partitions": "2",
        "spark.task.maxFailures": "4",
    }


class ClusterPipeline(Pipeline):
    """One pipeline from a topic to a table, on `cluster`."""

    def __init__(self, folder: Path, bootstrap: str, topic: str, database: str, cluster: Cluster) -> None:
        super().__init__(folder, bootstrap, topic, database)
        self.cluster = cluster
        self.environment |= fast_start()
        self.conf = cluster_conf(cluster)
        self.spec["spark"] = {"master": cluster.master, "conf": self.conf}

    def spark_log(self) -> str:
        """What the driver's Spark has logged."""
        return (self.location / "spark.log").read_text(errors="replace")

    def start(
        self,
        *,
        arm: Sequence[str] = (),
        until_caught_up: bool = True,
        take_over: bool = False,
        folder: Path | None = None,
    ) -> PipelineProcess:
        """See Pipeline. Fault points reach the executors as a setting: they inherit nothing from the driver."""
        self.conf["spark.executorEnv.EOS_FAULT_DIR"] = str(self.folder / f"faults-{len(self.processes)}")
        return super().start(arm=arm, until_caught_up=until_caught_up, take_over=take_over, folder=folder)
