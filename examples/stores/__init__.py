"""A complete store of docs/tutorial/plugins.md that can prepare."""
