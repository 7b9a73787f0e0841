"""A complete store of docs/plugins.md that can prepare."""
