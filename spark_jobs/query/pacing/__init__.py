"""When a checkpoint begins, and how much it takes.

Spark's trigger goes as fast as it can; a source's `latestOffset`, in Spark's planner process, waits until a checkpoint
is due (`turns`). The driver (`pacing`) writes into a small file, the pace, what is due.
"""
