"""Helm, kubeconform, and the schemas by which kubeconform checks objects of Kubernetes and of Prometheus Operator."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from integration_tests.services.go_programs import GoProgram
from integration_tests.services.maven_jars import cache_folder
from integration_tests.services.state import exclusive
from integration_tests.services.values import ServiceError

HELM: Final = GoProgram("helm", "helm.sh/helm/v4/cmd/helm", "v4.3.1")
KUBECONFORM: Final = GoProgram("kubeconform", "github.com/yannh/kubeconform/cmd/kubeconform", "v0.8.0")
PROGRAMS: Final = (HELM, KUBECONFORM)

_SCHEMAS: Final = "kubernetes-validate==1.37.0"
"""A package of PyPI with the JSON schemas of Kubernetes 1.25 to 1.37. Only its data is used."""
_DIGEST: Final = "sha256:85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9"
_ROOT_OF_SCHEMAS: Final = "kubernetes_validate/kubernetes-json-schema/"
_OPERATOR: Final = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
_MONITORS: Final = Path("example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml")


def schemas(version: str) -> Path:
    """Return the folder with the strict schemas of a version of Kubernetes, such as `1.37.0`, and of ServiceMonitor.

    The first call fetches a package of 22 MB and a Go module. Raises ServiceError.
    """
    folder = cache_folder() / "kubernetes-schemas" / version
    with exclusive(folder.parent / "lock"):
        if not folder.exists():
            partly = folder.with_name("partly")
            shutil.rmtree(partly, ignore_errors=True)
            partly.mkdir(parents=True)
            _unpack(_wheel(folder.parent), version, partly)
            strict = _strict(service_monitors()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
            (partly / "servicemonitor-monitoring-v1.json").write_text(json.dumps(strict))
            partly.rename(folder)
    return folder


def service_monitors() -> dict[str, Any]:
    """Return the definition of ServiceMonitor that Prometheus Operator ships. Raises ServiceError."""
    command = ["go", "mod", "download", "-json", _OPERATOR]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ServiceError(f"{_OPERATOR} is not in the module proxy:\n{done.stdout}{done.stderr}")
    found: dict[str, Any] = YAML(typ="safe").load(Path(json.loads(done.stdout)["Dir"]) / _MONITORS)
    return found


def _wheel(folder: Path) -> Path:
    found = [*folder.glob("*.whl")]
    if not found:
        wanted = folder / "requirements.txt"
        wanted.write_text(f"{_SCHEMAS} --hash={_DIGEST}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        command += ["--dest", str(folder), "--requirement", str(wanted)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ServiceError(f"{_SCHEMAS} could not be fetched:\n{done.stdout}{done.stderr}")
        found = [*folder.glob("*.whl")]
    return found[0]


def _unpack(wheel: Path, version: str, folder: Path) -> None:
    """Write the schemas without their URLs, by which kubeconform would look for the others in the internet."""
    prefix = f"{_ROOT_OF_SCHEMAS}v{version}-local-strict/"
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            if name.startswith(prefix):
                schema = json.loads(packed.read(name).decode().replace('"/api/', '"'))
                schema.pop("$id", None)
                (folder / name.removeprefix(prefix)).write_text(json.dumps(schema))


def _strict(schema: Any) -> Any:
    """Return a JSON schema for an OpenAPI schema, in which properties that are not named are errors."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    found = {name: _strict(each) for name, each in schema.items()}
    if "properties" in found and not schema.get("x-kubernetes-preserve-unknown-fields"):
        found.setdefault("additionalProperties", False)
    return found
