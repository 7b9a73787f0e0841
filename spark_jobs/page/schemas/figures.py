"""Figures over many checkpoints: percentiles, and lines over time."""

from __future__ import annotations

from typing import Literal

from spark_jobs.page.schemas.base import Answer

Metric = Literal["rate", "lag", "duration", "phases"]


class Distribution(Answer):
    """Of one figure. Percentiles are values that occurred."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


class Summary(Answer):
    """Figures of the newest checkpoints."""

    checkpoints: int
    first_at: float | None
    last_at: float | None
    duration_s: Distribution | None
    records: Distribution | None
    rows: Distribution | None
    bytes: Distribution | None
    phases: dict[str, Distribution | None]
    skipped: int  # bad records that were left out of them
    skipped_share: float | None  # of the records that they cover


class Line(Answer):
    """One line of a chart: a value for each bucket."""

    name: str
    values: list[float | None]


class Chart(Answer):
    """One metric over time."""

    metric: Metric
    unit: Literal["1/s", "1", "s"]
    lines: list[Line]


class Series(Answer):
    """For charts: bucket n begins at `since + n * width_s`."""

    since: float
    width_s: float
    buckets: int
    charts: list[Chart]
