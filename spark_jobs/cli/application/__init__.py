"""What `spark-submit` is given as the application. A folder of its own: Python puts it before everything else."""
