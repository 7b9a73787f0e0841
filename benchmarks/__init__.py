"""Measurements of the product: rows per second, the cost of a checkpoint, and growth over thousands of checkpoints."""
