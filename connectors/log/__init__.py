"""Sinks whose rows wait in the write-ahead log, whatever applies them: what tasks write, and what drivers find again.

Imports `twophase` and `wal`; nothing of a database.
"""
