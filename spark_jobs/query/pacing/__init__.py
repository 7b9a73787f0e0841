"""When a checkpoint begins, and how much it takes.

Spark's trigger goes as fast as it can; a source's `latestOffset`, in Spark's planner process, waits until a checkpoint
is due (`turns`). What is due the driver (`pacing`) writes into a small file (`pace`).
"""
