"""Pipelines to start from, and the demo that runs one of them, kills it, and counts."""
