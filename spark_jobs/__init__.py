"""The pipeline on Spark: session, source and writer adapters, the runner and the command line.

Only importer of pyspark.
"""
