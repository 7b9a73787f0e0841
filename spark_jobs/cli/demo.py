"""`eos demo`: an example with kills on a machine without services."""

from __future__ import annotations

import os

import typer

from eos.errors import SparkUnavailableError
from spark_jobs.cli.environment import check_java
from spark_jobs.cli.options import Debug


def demo(debug: Debug = False) -> None:
    """Run an example on this machine, kill it twice with `kill -9`, and count its rows.

    The command needs Java and no services. It starts an embedded Kafka broker, writes to a SQLite file, and produces
    10,000 records. The job is killed once before and once after the decision of a checkpoint. Its state and its table
    are in a temporary folder, which is deleted at the end, or kept after a failure. The last line is one JSON object.

    Exit code: 0 if every record is in the table exactly once; 1 otherwise; 130 after Ctrl-C.

    Examples:

        eos demo
        eos demo | tail -1
    """
    from spark_jobs.demo.performance import perform
    from spark_jobs.demo.place import embedded

    java = check_java(os.environ)
    if not java.ok and java.fatal:
        message = f"Java: {java.detail}"
        raise SparkUnavailableError(message, remedy=java.remedy)
    raise typer.Exit(perform(embedded))
