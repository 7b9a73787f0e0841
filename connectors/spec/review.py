"""Connections of a spec that are not protected, and code that it runs and that is not this project's. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from connectors.api.database import protection_of
from connectors.api.entry import Entry
from connectors.api.masking import mask
from connectors.api.tls import Protection, is_local
from connectors.spec.spec import Spec
from connectors.spec.steps import PythonStep, SqlStep, TransformStep
from wal.address import ObjectAddress

_BRINGS_CODE: Final = re.compile(
    r"spark\.("
    r"(jars|archives|files)(\..*)?|plugins(\..*)?|submit\.pyFiles|extraListeners|"
    r"(driver|executor)\.(extra|default)(JavaOptions|ClassPath|LibraryPath)|(driver|executor)\.userClassPathFirst|"
    r"pyspark(\.driver)?\.python|python\.daemon\.module|python\.worker\.module|"
    r"sql\.(extensions|catalog\..*|catalogImplementation|queryExecutionListeners|sources\.commitProtocolClass)|"
    r"sql\.streaming\.(streamingQueryListeners|checkpointFileManagerClass)|"
    r"hadoop\..*|serializer|kryo\..*|shuffle\.manager|.*\.class(Name)?|.*[a-z]Class(es)?|"
    r"executorEnv\..*|yarn\.(dist\..*|jars|archive|appMasterEnv\..*)|"
    r"kubernetes\.(.*[iI]mage|.*\.podTemplateFile|driverEnv\..*)|"
    r".*\.discoveryScript|resources\.discoveryPlugin|ui\.filters|metrics\.conf(\..*)?|"
    r"sql\.(hive\.metastore\.jars(\..*)?|cache\.serializer|extendedExplainProviders)"
    r")"
)
"""Spark's settings that name jars, modules, programs or classes, or the environment in which Python finds them."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """One connection."""

    of: str  # "source orders", "sink warehouse", "head", "log"
    what: str


def exposures(spec: Spec) -> list[Exposure]:
    """What anybody on the way could read or pose as, in the order of the spec. On this machine nobody is on the way.

    Also what any user of the machine can read in its list of processes, and what Spark's pages and event log show.
    """
    found = [Exposure(of, protection.value) for of, protection in _connections(spec) if protection.is_open]
    found += [
        Exposure(f"step {step.name}", "a reference brings a value into its SQL: Spark's pages and event log show it")
        for step in spec.transforms
        if _shows_plans(spec) and any(_has_secret(text, spec) for text in _sql_of(step))
    ]
    return found + [
        Exposure("spark", f"{name} has a secret in it: Java options are arguments of a process, which `ps` shows")
        for name, value in spec.spark.conf.items()
        if name.endswith("JavaOptions") and spec.mask(value) != value
    ]


def _sql_of(step: TransformStep) -> list[str]:
    return [*([step.sql] if isinstance(step, SqlStep) else []), *(rule.condition for rule in step.expect)]


def _shows_plans(spec: Spec) -> bool:
    """Whether Spark shows its plans, with the constants in them, to others than the spec's user."""
    conf = spec.spark.conf
    return any(conf.get(f"spark.{name}.enabled", "false").lower() == "true" for name in ("ui", "eventLog"))


def _has_secret(text: str, spec: Spec) -> bool:
    """Whether a value that a reference brings is in the text: not what only looks like one, such as `token=x`."""
    return mask(text, spec.secrets) != mask(text, frozenset())


def _connections(spec: Spec) -> Iterator[tuple[str, Protection]]:
    entries: list[tuple[str, Entry]] = [(f"source {source.name}", source) for source in spec.sources]
    entries += [(f"sink {sink.name}", sink) for sink in spec.outputs]
    for of, entry in entries:
        if entry.protection is not None:
            yield of, entry.protection
    if spec.checkpoint.head is not None:
        yield "head", protection_of(spec.checkpoint.head.reveal())
    for each in spec.notifications:
        url = urlsplit(each.url.reveal())
        if url.scheme == "http":
            yield f"notification {each.name}", Protection.LOCAL if is_local(url.hostname) else Protection.NONE
    for of, place in {"log": spec.checkpoint.log_at, "location": spec.checkpoint.location_at}.items():
        if isinstance(place, ObjectAddress) and place.endpoint.startswith(("http://", "hdfs://")):
            yield of, Protection.LOCAL if is_local(urlsplit(place.endpoint).hostname) else Protection.NONE


def code_of(spec: Spec) -> list[str]:
    """What is to be reviewed as code: steps with `python`, and settings of Spark's that bring some."""
    steps = [f"step {step.name}: {step.python}" for step in spec.transforms if isinstance(step, PythonStep)]
    return steps + [f"spark.conf: {name}" for name in spec.spark.conf if _BRINGS_CODE.fullmatch(name)]
