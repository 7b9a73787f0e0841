"""MySQL and MariaDB as sinks, by two-phase commit or by a log.

Read in this order: `sink` (the sink of a spec), `target` and `fit` (whether the table takes the rows), `writer` (a
task's half: `encode`, `bulk`), `xa` (the statements of two-phase commit), `server` (the driver's connection), `store`
(the connection that applies a log), `zombie_connections`, `doctor`.
"""
