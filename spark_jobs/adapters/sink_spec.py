"""The spec of a job of one's own: a pipeline, its location and its sink; sources and steps are the job's."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from connectors.spec import Spec, load_spec
from connectors.spec.spec import CHANGELOG
from eos.errors import ConnectorError, SpecError
from spark_jobs.observe.log_lines import mask_log


def load_sink_spec(path: str | Path) -> Spec:
    """Reads the spec, and touches no service; the log shows none of its secrets. Raises SpecError with all mistakes."""
    spec = load_spec(Path(path), os.environ)
    if spec.sources:
        message = f"{path} has sources and steps of its own"
        raise SpecError(message, remedy="run it with `eos run`; for a query of your own, leave `sources` out")
    if spec.has_backend:
        message = f"{path} has state.backend, and the job's own query has its state"
        raise SpecError(message, remedy=f"leave `state` out, and set {CHANGELOG} in the job's session")
    mask_log(spec.secrets)
    return spec


def digest_of(spec: Spec) -> str:
    """Of what says where rows and decisions go: equal for two readings of a file that nobody has changed in between."""
    head = spec.checkpoint.head.reveal() if spec.checkpoint.head is not None else ""
    sinks = [list(entry.fingerprint(spec.context)) for entry in spec.outputs]
    return hashlib.sha256(repr((spec.pipeline, str(spec.checkpoint.location), head, sinks)).encode()).hexdigest()


@contextmanager
def masked(spec: Spec) -> Iterator[None]:
    """Errors of ours without the spec's secrets: Spark shows them in logs and in the UI."""
    try:
        yield
    except ConnectorError as error:
        raise type(error)(spec.mask(error.message), remedy=spec.mask(error.remedy)) from None
