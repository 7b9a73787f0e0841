"""The terminal as a sink: rows as lines of JSON. It shows a first try of a pipeline."""
