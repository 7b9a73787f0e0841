"""SQLite: rows wait in a write-ahead log and are applied in one transaction for each checkpoint.

Read in this order: `sink` (what a spec names), `writer` (a task), `committer` (the driver), `log` and `tables`.
"""
