"""One Spark batch as one checkpoint: the job that writes and prepares, its tasks, acknowledgements and dead letters."""
