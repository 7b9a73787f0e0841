"""The example job: words from Kafka, chained to their predecessors in a stateful step, into a table."""
