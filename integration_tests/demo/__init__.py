"""The demo of `spark_jobs.demo` on real servers, and its job for tests. `scripts/demo` runs it."""
