"""The interface between the core and a connector: contracts, the bases of spec entries, and the lookup of plugins.

Imports no connector, no client and no Spark.
"""
