"""A Spark cluster of real processes on this machine, and pipelines that run on it."""
