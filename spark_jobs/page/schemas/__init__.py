"""What the API answers, as its OpenAPI document describes it: a room for each of its parts.

Times are seconds since 1970, UTC; durations are seconds, sizes bytes. What was not measured is null. Names of a
pipeline's parts stand in values and never in keys: they are anybody's.
"""

from spark_jobs.page.schemas.base import Answer, Problem, Refused
from spark_jobs.page.schemas.checkpoints import (
    AbortedTry,
    Acknowledgement,
    Checkpoint,
    Checkpoints,
    Detail,
    Phases,
    Range,
    SinkCommit,
    SplitLag,
    WithheldSplit,
)
from spark_jobs.page.schemas.failures import Event, Events
from spark_jobs.page.schemas.figures import Chart, Distribution, Line, Metric, Series, Summary
from spark_jobs.page.schemas.pipelines import (
    Head,
    Overview,
    PipelineName,
    Pipelines,
    Run,
    Runs,
    SpecText,
    State,
    Throughput,
    Totals,
)
from spark_jobs.page.schemas.requests import RequestState, StopWish
from spark_jobs.page.schemas.sinks import Sink, Sinks, Transaction, Transactions

__all__ = [
    "AbortedTry",
    "Acknowledgement",
    "Answer",
    "Chart",
    "Checkpoint",
    "Checkpoints",
    "Detail",
    "Distribution",
    "Event",
    "Events",
    "Head",
    "Line",
    "Metric",
    "Overview",
    "Phases",
    "PipelineName",
    "Pipelines",
    "Problem",
    "Range",
    "Refused",
    "RequestState",
    "Run",
    "Runs",
    "Series",
    "Sink",
    "SinkCommit",
    "Sinks",
    "SpecText",
    "SplitLag",
    "State",
    "StopWish",
    "Summary",
    "Throughput",
    "Totals",
    "Transaction",
    "Transactions",
    "WithheldSplit",
]
