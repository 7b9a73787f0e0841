"""The terminal as a sink: rows as lines of JSON, for a first try of a pipeline."""
