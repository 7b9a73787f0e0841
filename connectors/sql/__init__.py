"""Databases: MySQL and MariaDB by two-phase commit, SQLite by write-ahead log, and head in any SQL database.

The only importer of SQLAlchemy and of the database drivers. For MySQL and MariaDB read in this order: `sink` (what the
user names), `target` and `fit` (does the table take the rows), `writer` (a task's half: `encode`, `bulk`), `xa` (the
statements of two-phase commit), `committer` and `permits` (the driver's half), `doctor`.
"""
