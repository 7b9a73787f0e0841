"""Real pipelines of many partitions, and on clusters of some workers: docs/explanation/scale.md has the figures."""
