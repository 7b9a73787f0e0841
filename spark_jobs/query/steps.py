"""The steps of a spec as frames: over the sources as one streaming query, or over the rows of one batch.

A step is SQL, or a function of the user's own, which is found by its name and called with its frames.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType

import py4j  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from connectors.spec import PythonStep, Spec, SqlStep, TransformStep
from eos.errors import ConnectorError, SpecError
from spark_jobs.query.expectations import failing, passing, with_rules
from spark_jobs.query.one_query import NoQueryError, check_query
from spark_jobs.query.plan import adds_expiring_state


def apply_steps(
    spark: SparkSession,
    spec: Spec,
    steps: Iterable[TransformStep],
    frames: Mapping[str, DataFrame],
    rejected: dict[str, DataFrame] | None = None,
) -> dict[str, DataFrame]:
    """`frames`, and those that the steps make of them; each becomes a view of its name in this session.

    `rejected`: gets the rows of each step that its rules reject; None: these rows stay in the step's frame.

    Raises SpecError for a step that Spark does not accept, that is more than a query, or that is not there.
    """
    known = dict(frames)
    for name, frame in known.items():
        frame.createOrReplaceTempView(name)
    for step in steps:
        try:
            frame = _step(spark, spec, step, known)
            if step.expect:
                frame = with_rules(spark, step, frame, f"transforms[{spec.transforms.index(step)}] ({step.name})")
            if step.rejects_rows and rejected is not None:
                rejected[step.name], frame = failing(step, frame), passing(step, frame)
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
    given = {name: spark.table(name) for name in step.from_}
    frame = call_step(step, spec.folder, given)
    if step.state_ttl_s is not None and not adds_expiring_state(given.values(), frame):
        message = f"step {step.name}: state_ttl has no effect: no state of the step can expire"
        remedy = (
            "pass state_ttl_ms to getValueState, getListState or getMapState of a transformWithState with timeMode "
            '"ProcessingTime": Spark has no TTL for other state'
        )
        raise SpecError(message, remedy=remedy)
    return frame


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def call_step(step: PythonStep, folder: Path, frames: Mapping[str, DataFrame]) -> DataFrame:
    """The frame that the function returns. Called whenever the query is built, at least once a start.

    Its module is looked for beside the spec first. Raises SpecError, with the place in the user's file, whatever that
    code raises; what Spark raises there goes through, since the caller knows how to say it.
    """
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    module_name, _, function_name = step.python.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
        result = function(*[frames[name] for name in step.from_], **step.arguments)
    except (ConnectorError, PySparkException, Py4JError):
        raise
    except (Exception, SystemExit) as error:  # a user's code may raise anything
        if isinstance(error, ConnectionError) and _is_of(error, py4j):
            raise  # the JVM is gone
        message = f"step {step.name}: {step.python}: {type(error).__name__}: {error}{_place(error, folder)}"
        remedy = f"correct {module_name}.py; with --debug you see the stack trace"
        if isinstance(error, ModuleNotFoundError):
            remedy = f"put {str(error.name).partition('.')[0]}.py beside the spec, or install its package"
        raise SpecError(message, remedy=remedy) from error
    if not isinstance(result, DataFrame):
        message = f"step {step.name}: {step.python} returned {type(result).__name__}, not a DataFrame"
        raise SpecError(message, remedy="return the transformed DataFrame")
    return result


def _is_of(error: BaseException, package: ModuleType) -> bool:
    """Whether it came through this package's code."""
    assert package.__file__ is not None
    folder = Path(package.__file__).parent
    return any(Path(each.filename).is_relative_to(folder) for each in traceback.extract_tb(error.__traceback__))


def _place(error: BaseException, folder: Path) -> str:
    """The last line beside the spec that the error came through, if there is one; not in an environment there."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_relative_to(folder) and "site-packages" not in file.parts:
            return f" ({file.relative_to(folder)}, line {frame.lineno})"
    return ""
