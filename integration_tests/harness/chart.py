"""The Helm chart: rendered, refused, and checked by kubeconform."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from integration_tests.services.kubernetes_tools import HELM, KUBECONFORM, schemas
from integration_tests.services.state import PROJECT

CHART: Final = PROJECT / "docker" / "helm" / "eos-spark"

Object = dict[str, Any]
"""An object of Kubernetes."""

STORE: Final = """\
pipeline: orders
checkpoint: {location: "s3://my-bucket/eos/orders"}
sources:
  - name: orders
    connector: kafka
    bootstrap_servers: ${env:KAFKA}
    topics: [orders]
    format: {type: json, schema: "id BIGINT"}
sinks:
  - {name: warehouse, connector: mysql, from: orders, url: "${env:WAREHOUSE}", table: orders, commit: two-phase}
"""
VOLUME: Final = STORE.replace("s3://my-bucket/eos/orders", "/var/lib/eos/orders")


@dataclass(frozen=True, slots=True)
class Chart:
    """A copy of the chart, or the chart itself, with the programs that read it. `folder`: for files and logs."""

    folder: Path
    path: Path = CHART

    def helm(self, *words: str, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        """Run helm with these values; nothing of the user's configuration is read."""
        command = [str(HELM.obtain(self.folder / "build.log")), *words]
        if values is not None:
            file = self.folder / "values.yaml"
            file.write_text(json.dumps(values))  # JSON is YAML
            command += ["--values", str(file)]
        home = {"HOME": str(self.folder), "PATH": "/usr/bin:/bin"}
        return subprocess.run(command, capture_output=True, text=True, env=home, check=False, cwd=PROJECT)

    def rendered(self, values: Mapping[str, Any], *options: str, release: str = "shop") -> str:
        """Return the manifest. Fails with helm's message."""
        done = self.helm("template", release, str(self.path), *options, values=values)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def objects(self, values: Mapping[str, Any], *options: str, release: str = "shop") -> list[Object]:
        """Return all objects of the manifest."""
        found = YAML(typ="safe").load_all(self.rendered(values, *options, release=release))
        return [each for each in found if each is not None]

    def refusal(self, values: Mapping[str, Any]) -> str:
        """Return the message with which helm refuses these values."""
        done = self.helm("template", "shop", str(self.path), values=values)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def problems(self, manifest: str, version: str = "1.37.0") -> list[str]:
        """Return what is wrong by the strict schemas of this version of Kubernetes; a kind without a schema is, too."""
        folder = schemas(version)
        command: Sequence[str] = [
            str(KUBECONFORM.obtain(self.folder / "build.log")),
            "-strict",
            *("-kubernetes-version", version),
            *("-schema-location", f"{folder}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"),
            *("-output", "json", "-verbose"),
        ]
        done = subprocess.run(command, input=manifest, capture_output=True, text=True, check=False)
        found = json.loads(done.stdout)["resources"]
        assert found, done.stderr
        return [f"{each['kind']}: {each['msg']}" for each in found if each["status"] != "statusValid"]


def only(objects: Sequence[Object], *kinds: str) -> Object:
    """Return the object of one of these kinds, of which there must be one."""
    (found,) = (each for each in objects if each["kind"] in kinds)
    return found


def driver(objects: Sequence[Object]) -> Object:
    """Return the workload."""
    return only(objects, "Deployment", "StatefulSet")


def container(workload: Object) -> Object:
    """Return the driver's container."""
    (found,) = workload["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found
