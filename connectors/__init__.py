"""Sources and sinks, and the YAML spec that names them. Knows `twophase`, `wal` and `eos.errors`, and nothing of Spark."""
