"""Sinks for stores that are no SQL servers: the author writes a small store, and the framework writes the rest.

Level (a) is a `TokenStore` (three methods), level (b) a `PreparingStore` (five methods and `check`). See
docs/tutorial/plugins.md.
"""
