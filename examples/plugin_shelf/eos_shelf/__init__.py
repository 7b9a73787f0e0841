"""A sink: boxes on a shelf."""
