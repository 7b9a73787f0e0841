"""Sources and sinks, and the YAML spec that names them. Imports `twophase`, `wal` and `eos.errors`, not Spark."""
