"""Settings of Spark's that the protocol needs, and those that suit connectors."""

from __future__ import annotations

from typing import Final

REQUIRED: Final = {
    "spark.speculation": "false",  # R5
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",  # H22: a losing attempt cannot overwrite state
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    # Renames as the default one does, and takes a third of its time: that one starts a program to look at a link.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.runSQLOnFiles": "false",  # a step's SQL reads what the spec names, and no file of this machine
}
LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Where master and workers are on this machine."""
