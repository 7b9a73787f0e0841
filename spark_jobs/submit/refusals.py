"""What cannot work, refused before anything is sent; and what must hold where nobody can look from here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from connectors.spec import Spec
from eos.errors import SpecError
from spark_jobs.session.master import is_local
from spark_jobs.submit.request import Request

_VARIABLE: Final = ("spark.kubernetes.driver.secretKeyRef.", "spark.kubernetes.driverEnv.", "spark.yarn.appMasterEnv.")
"""Settings that give the driver's container a variable."""
_MOUNT: Final = re.compile(
    r"spark\.kubernetes\.driver\.volumes\.(?:persistentVolumeClaim|hostPath)\.[^.]+\.mount\.path"
)
_FOR_IMAGES: Final = ("spark.kubernetes.container.image", "spark.kubernetes.file.upload.path")


def check(spec: Spec, request: Request, master: str, conf: Mapping[str, str], variables: frozenset[str]) -> None:
    """Raise SpecError. `variables`: those that the spec names as `${env:…}`; `conf`: all settings that are sent."""
    if not spec.sources:
        message = f"{request.file} names no sources"
        raise SpecError(message, remedy="it is for a job of your own, by ExactlyOnce: submit that job")
    if is_local(master):
        raise SpecError(f"{master} is this machine, no cluster", remedy="use `eos run`, or name a cluster")
    if request.environment and "spark.pyspark.python" in conf:
        message = (
            f"--environment brings the workers' Python, and spark.pyspark.python is {conf['spark.pyspark.python']}"
        )
        raise SpecError(message, remedy="take one of them out")
    if request.environment and "://" not in request.environment and not Path(request.environment).is_file():
        message = f"{request.environment} is not there"
        raise SpecError(message, remedy="pack an environment first, as in: venv-pack -o environment.tar.gz")
    if request.in_cluster:
        _check_cluster_mode(spec, master, conf, variables)


def _check_cluster_mode(spec: Spec, master: str, conf: Mapping[str, str], variables: frozenset[str]) -> None:
    location = spec.checkpoint.location
    if master.startswith("spark://"):
        message = f"{master}: Spark's standalone cluster runs no Python driver of its own"
        raise SpecError(message, remedy="leave out --deploy-mode cluster: the driver runs here")
    if location.is_relative_to(spec.folder):
        message = f"checkpoint.location ({location}) is in the spec's folder, which is the driver's container there"
        raise SpecError(message, remedy="give an absolute path on a disk that outlives the driver")
    if master.startswith("k8s://"):
        _check_kubernetes(location, conf)
    missing = sorted(name for name in variables if not any(f"{prefix}{name}" in conf for prefix in _VARIABLE))
    if missing:
        prefix = _VARIABLE[0 if master.startswith("k8s://") else 2]
        value = "SECRET:KEY" if master.startswith("k8s://") else "VALUE"
        message = f"the driver will not have {', '.join(missing)}, which the spec names"
        remedy = f"give --conf {prefix}{missing[0]}={value}, best in a file, by --properties-file"
        raise SpecError(message, remedy=remedy)
    packages = [path.name for path in _beside(spec) if path.is_dir()]
    if packages:
        message = f"{', '.join(packages)} beside the spec: a package cannot be sent to the driver so"
        raise SpecError(message, remedy="install it into the environment, or write its steps as single modules")


def _check_kubernetes(location: Path, conf: Mapping[str, str]) -> None:
    absent = [key for key in _FOR_IMAGES if key not in conf]
    if absent:
        message = f"Kubernetes needs {' and '.join(absent)}"
        remedy = f"give --conf {absent[0]}=…, or let the image run `eos run`: docs/how-to/deploying.md"
        raise SpecError(message, remedy=remedy)
    mounts = [Path(path) for key, path in conf.items() if _MOUNT.fullmatch(key)]
    if not any(location.is_relative_to(mount) for mount in mounts):
        message = f"checkpoint.location ({location}) is on no volume of the driver's, and would be gone with its pod"
        remedy = "mount a claim there: --conf spark.kubernetes.driver.volumes.persistentVolumeClaim.NAME.mount.path=…"
        raise SpecError(message, remedy=remedy)


def modules(spec: Spec) -> list[Path]:
    """Single modules beside the spec, where a step may need them."""
    return [path for path in _beside(spec) if path.is_file()]


def _beside(spec: Spec) -> list[Path]:
    if not spec.has_python_steps:
        return []
    from spark_jobs.session.shipping import beside  # imports Spark

    return [path for path, _ in beside(spec.folder)]


def conditions(spec: Spec, request: Request) -> Iterator[str]:
    """What must hold in cluster mode, for the one who submits."""
    location = spec.checkpoint.location
    yield (
        f"{location} is the same local disk wherever the driver starts: a claim on Kubernetes, on YARN one node "
        "(spark.yarn.am.nodeLabelExpression)"
    )
    yield "files that the spec names, such as ${file:…}, are there, under the same paths"
    if request.environment is None:
        yield "the Python of the driver and of the workers has the package eos-spark"
    else:
        yield f"{request.environment} has the package eos-spark"
