"""A step of the user's own: finds the function that the spec names, and calls it with its frames."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import py4j  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from connectors.spec import PythonStep
from eos.errors import ConnectorError, SpecError


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
        result = function(*[frames[name] for name in step.from_], **step.options)
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
