"""The command line `eos`. Starts without Spark: only the commands that run a pipeline import it."""

from __future__ import annotations

from spark_jobs.cli.app import command_line, main, run_command_line

__all__ = ["command_line", "main", "run_command_line"]
