"""`commit: write-ahead-log`, for every database: checkpoints are applied slot by slot, rows and witness together."""
