"""How the coordinator's cost grows with tasks, sinks, splits and stored checkpoints.

The coordinator is the product's, from the acknowledgements of a Spark job to the history; head, Spark's log and the
history lie on the local disk. What is not there is Spark, which would run the tasks, and the work of the sinks.
"""
