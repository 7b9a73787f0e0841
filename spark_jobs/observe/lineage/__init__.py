"""Lineage for OpenLineage: the data sets that a run reads and writes, column by column, and the rows it has written."""
