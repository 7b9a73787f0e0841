"""The steps of a spec as frames: over the sources as one streaming query, or over the rows of one batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from connectors.spec import Spec, SqlStep, TransformStep
from eos.errors import SpecError
from spark_jobs.query.one_query import NoQueryError, check_query
from spark_jobs.query.python_step import call_step


def apply_steps(
    spark: SparkSession, spec: Spec, steps: Iterable[TransformStep], frames: Mapping[str, DataFrame]
) -> dict[str, DataFrame]:
    """`frames`, and those that the steps make of them; each becomes a view of its name in this session.

    Raises SpecError for a step that Spark does not accept, that is more than a query, or that is not there.
    """
    known = dict(frames)
    for name, frame in known.items():
        frame.createOrReplaceTempView(name)
    for step in steps:
        try:
            frame = _step(spark, spec, step, known)
            if step.watermark is not None:
                frame = frame.withWatermark(step.watermark.column, f"{step.watermark.delay_s} seconds")
        except (AnalysisException, ParseException) as error:
            message = f"transforms[{spec.transforms.index(step)}] ({step.name}): {_first_line(error)}"
            raise SpecError(message, remedy="see the steps before it for the columns there are") from error
        except NoQueryError as error:
            message = f"transforms[{spec.transforms.index(step)}] ({step.name}): {error}"
            raise SpecError(message, remedy=error.remedy) from None
        frame.createOrReplaceTempView(step.name)
        known[step.name] = frame
    return known


def _step(spark: SparkSession, spec: Spec, step: TransformStep, frames: Mapping[str, DataFrame]) -> DataFrame:
    if isinstance(step, SqlStep):
        check_query(spark, step.sql)
        return spark.sql(step.sql)
    return call_step(step, spec.folder, {name: spark.table(name) for name in step.from_})


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
