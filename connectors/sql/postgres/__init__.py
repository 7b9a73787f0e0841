"""PostgreSQL as a sink: PREPARE TRANSACTION, and COPY.

Read in this order: `sink` (the sink of a spec), `target` and `fit` (whether the table takes the rows), `writer` (a
task's half: `encode`, `copying`), `transactions` (the statements of two-phase commit), `server` (the driver's
connection), `store` (the connection that applies a log), `zombie_connections`, `doctor`.
"""
