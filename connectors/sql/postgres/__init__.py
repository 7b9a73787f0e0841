"""PostgreSQL by two-phase commit: PREPARE TRANSACTION, and COPY.

Read in this order: `sink` (what a spec names), `target` and `fit` (does the table take the rows), `writer` (a task's
half: `rows`), `server` (the driver's connection), `stragglers`, `doctor`.
"""
