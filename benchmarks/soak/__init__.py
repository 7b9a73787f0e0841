"""Thousands of checkpoints at full speed: what must not grow is measured on the way. `make soak`."""
