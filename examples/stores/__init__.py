"""Complete small stores: the examples of docs/plugins.md."""
