"""A DuckDB sink for eos-spark: exactly once, one atomic step for each checkpoint."""
