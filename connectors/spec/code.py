"""What a spec has run that is not this project's, by name. Pure."""

from __future__ import annotations

import re
from typing import Final

from connectors.spec.spec import Spec
from connectors.spec.steps import PythonStep

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


def code_of(spec: Spec) -> list[str]:
    """What is to be reviewed as code: steps with `python`, and settings of Spark's that bring some."""
    steps = [f"step {step.name}: {step.python}" for step in spec.transforms if isinstance(step, PythonStep)]
    return steps + [f"spark.conf: {name}" for name in spec.spark.conf if _BRINGS_CODE.fullmatch(name)]
