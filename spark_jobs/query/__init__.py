"""Spark's side of a query: sources, steps, pacing, plans, and the files of Spark's checkpoint folder."""
