"""The YAML spec: what it may say, what is wrong with it, and what follows from it. Touches no service.

`load_spec` reads and validates; `promise` and `guarantees` say what the pipeline promises; `mask` keeps secrets out of
messages.
Imports neither Spark nor a database nor pyarrow, so that `eos validate` answers at once.
"""

from __future__ import annotations

from connectors.api.entry import SinkEntry, SourceEntry
from connectors.api.guarantee import Guarantee
from connectors.api.masking import Url, mask
from connectors.api.mistakes import Mistake, SpecMistakesError
from connectors.spec.expectations import Expectation
from connectors.spec.guarantees import guarantees, promise
from connectors.spec.loader import load_spec, load_text
from connectors.spec.review import Exposure, code_of, exposures
from connectors.spec.spec import Spec, json_schema
from connectors.spec.steps import PythonStep, SqlStep, TransformStep

__all__ = [
    "Expectation",
    "Exposure",
    "Guarantee",
    "Mistake",
    "PythonStep",
    "SinkEntry",
    "SourceEntry",
    "Spec",
    "SpecMistakesError",
    "SqlStep",
    "TransformStep",
    "Url",
    "code_of",
    "exposures",
    "guarantees",
    "json_schema",
    "load_spec",
    "load_text",
    "mask",
    "promise",
]
