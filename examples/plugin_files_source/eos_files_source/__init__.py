"""JSON Lines and Parquet files of a folder or an object store, as a source of eos-spark."""
