"""Sources, sinks, and the YAML spec that names them. Knows `twophase`, `wal`, `eos.errors`; nothing of Spark."""
