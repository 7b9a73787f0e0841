"""A node of a Kubernetes without nodes: runs the drivers of its pods as processes of this machine.

It reads pods, ConfigMaps and Secrets from the API server, and does what kubelet does with them: environment, files,
readiness probe, SIGTERM when a pod is deleted. It has no containers.
"""

from __future__ import annotations

import base64
import http.client
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from integration_tests.harness.chart import Object
from integration_tests.harness.faults import Faults
from integration_tests.harness.pipeline import Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess
from integration_tests.services.kubernetes_native import Kubernetes, Refused
from integration_tests.services.state import free_port

_POLL_S: Final = 0.2
_PATCH: Final = "application/merge-patch+json"


def set_ready(kubernetes: Kubernetes, pod: Object, *, is_ready: bool = True) -> None:
    """Report a pod as running, and ready or not, as its node would."""
    status = "True" if is_ready else "False"
    conditions = [{"type": each, "status": status} for each in ("Ready", "ContainersReady")]
    body = {"status": {"phase": "Running", "conditions": conditions}}
    kubernetes.request("PATCH", f"{path_of(pod)}/status", body, _PATCH)


def bind(kubernetes: Kubernetes, pod: Object) -> None:
    """Give a pod to the node, as the scheduler would: its deletion then waits for the node."""
    body = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "here"}}
    body["metadata"] = {"name": pod["metadata"]["name"]}
    kubernetes.request("POST", f"{path_of(pod)}/binding", body)


def remove(kubernetes: Kubernetes, pod: Object) -> None:
    """Report that nothing of a deleted pod runs."""
    with suppress(Refused):
        kubernetes.request("DELETE", path_of(pod), {"gracePeriodSeconds": 0})


def path_of(pod: Object) -> str:
    """Return the path of a pod in the API."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


@dataclass
class _Running:
    """A driver of a pod."""

    process: PipelineProcess
    port: int  # of its page, which in a container is the same in each pod
    is_ready: bool = False
    is_ending: bool = False


@dataclass
class Node:
    """Runs the pods of a namespace during the block. Its processes belong to the pipeline, which ends them."""

    kubernetes: Kubernetes
    namespace: str
    pipeline: Pipeline
    running: dict[str, _Running] = field(default_factory=dict)
    wanted: list[int] = field(default_factory=list)  # pods that are not deleted, at each poll
    ended: dict[str, int] = field(default_factory=dict)  # exit codes, by pod
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="node", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_POLL_S):
            pods = self.kubernetes.request("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
            for pod in pods:
                self._serve(pod)
            self.wanted.append(sum("deletionTimestamp" not in each["metadata"] for each in pods))

    def _serve(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        driver = self.running.get(name)
        if driver is None:
            if "deletionTimestamp" not in pod["metadata"]:
                bind(self.kubernetes, pod)
                self.running[name] = self._start(pod)
            return
        if "deletionTimestamp" in pod["metadata"] and not driver.is_ending:
            driver.is_ending = True
            driver.process.terminate()
        code = driver.process.exit_code
        if code is not None and driver.is_ending:
            self.ended[name] = code
            self.running.pop(name)
            remove(self.kubernetes, pod)
        elif (is_ready := code is None and _answers(driver.port)) != driver.is_ready:
            driver.is_ready = is_ready
            set_ready(self.kubernetes, pod, is_ready=is_ready)

    def _start(self, pod: Object) -> _Running:
        folder = self.pipeline.folder / pod["metadata"]["name"]
        specs, home = folder / "etc-eos", folder / "home"
        for each in (specs, home):
            each.mkdir(parents=True)
        (volume,) = (each for each in pod["spec"]["volumes"] if each["name"] == "spec")
        for file, text in self._read("configmaps", volume["configMap"]["name"])["data"].items():
            (specs / file).write_text(text)
        (container,) = pod["spec"]["containers"]
        port = free_port(0)
        words = [word.replace("/etc/eos", str(specs)) for word in container["args"]]
        words[words.index("--ui-port") + 1] = str(port)
        environment = {**self._environment(container), "HOME": str(home)}
        process = PipelineProcess(words, home, folder / "log", Faults(folder / "faults"), environment)
        self.pipeline.processes.append(process)
        return _Running(process, port)

    def _environment(self, container: Object) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in container.get("envFrom", []):
            data = self._read("secrets", each["secretRef"]["name"])["data"]
            found |= {name: base64.b64decode(value).decode() for name, value in data.items()}
        for each in container["env"]:
            if "value" in each:
                found[each["name"]] = each["value"]
            else:
                reference = each["valueFrom"]["secretKeyRef"]
                value = self._read("secrets", reference["name"])["data"][reference["key"]]
                found[each["name"]] = base64.b64decode(value).decode()
        return found

    def _read(self, kind: str, name: str) -> Any:
        return self.kubernetes.request("GET", f"/api/v1/namespaces/{self.namespace}/{kind}/{name}")


def _answers(port: int) -> bool:
    """Whether the readiness probe succeeds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
