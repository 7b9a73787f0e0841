"""Real pipelines of many partitions, and on clusters of some workers: docs/scale.md has the figures."""
