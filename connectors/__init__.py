"""Sources and sinks, and the YAML spec that names them. Knows `twophase` and `wal`, and nothing of Spark."""
