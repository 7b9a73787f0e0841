"""Savepoints: a checkpoint that is kept on request, whole and by itself, and that a pipeline can begin from.

Read in this order: `plan` (what a query is made of, by the names in its spec), `manifest` (the format), `take` (with
`query.state_files`, the files of Spark's folder that it needs), `place` (where savepoints are: `folder`, `store`),
`changes` (what a spec has changed since). `spark_jobs.operations.from_savepoint` begins a pipeline from one.
"""
