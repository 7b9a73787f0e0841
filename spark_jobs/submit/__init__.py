"""`eos submit`: the line of `spark-submit` that runs a spec, what it needs, and what is refused. Imports no Spark."""

from spark_jobs.submit.line import Submission, submission
from spark_jobs.submit.request import Request

__all__ = ["Request", "Submission", "submission"]
