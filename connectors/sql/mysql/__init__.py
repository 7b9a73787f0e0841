"""MySQL and MariaDB by two-phase commit.

Read in this order: `sink` (what a spec names), `target` and `fit` (does the table take the rows), `writer` (a task's
half: `encode`, `bulk`), `xa` (the statements of two-phase commit), `tables` (the protocol's own rows), `committer` and
`permits` (the driver's half), `doctor`.
"""
