"""A Kubernetes API server with its controllers, as processes of this machine, for one test.

There are no nodes: pods are objects that a test may look at, bind and declare ready.
"""

from __future__ import annotations

import json
import secrets
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from integration_tests.services.go_programs import GoProgram
from integration_tests.services.processes import ServerProcess
from integration_tests.services.state import free_port, tail
from integration_tests.services.values import ServiceError

_VERSION: Final = "v1.37.2"
_OF_LIBRARIES: Final = "v0.37.2"
_PREFIX: Final = "k8s.io/component-base/version"
_FLAGS: Final = (
    "-ldflags",
    f"-s -w -X {_PREFIX}.gitVersion={_VERSION} -X {_PREFIX}.gitMajor=1 -X {_PREFIX}.gitMinor=37",
)
_ETCD: Final = GoProgram("etcd", "go.etcd.io/etcd/server/v3", "v3.7.0", siblings="v3.7.0")


def part_of_kubernetes(name: str) -> GoProgram:
    """Return a program of this version of Kubernetes."""
    return GoProgram(name, f"k8s.io/kubernetes/cmd/{name}", _VERSION, 3600, _OF_LIBRARIES, _FLAGS)


_SERVER: Final = part_of_kubernetes("kube-apiserver")
_CONTROLLERS: Final = part_of_kubernetes("kube-controller-manager")
PROGRAMS: Final = (_ETCD, _SERVER, _CONTROLLERS)
_ANSWERS: Final = ("", "/api/v1/namespaces/default", "/api/v1/namespaces/default/serviceaccounts/default")
"""What a request finds once each of them has started: the account is made by the controllers."""

_RUN: Final = (
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "replicaset-controller",
    "serviceaccount-controller",
    "statefulset-controller",
)
"""The controllers that make pods of workloads. Others would remove pods of nodes that do not answer."""
_START_S: Final = 180.0  # on a busy machine
_ANSWER_S: Final = 30.0


class Refused(Exception):
    """An answer of the API server with an error: `status`, and its message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Kubernetes:
    """A cluster without nodes in a folder of the caller's. As a context manager it runs inside the block."""

    def __init__(self, folder: Path, controllers: Sequence[str] = ()) -> None:
        """
        Args:
            controllers: further ones, such as those that a node needs.
        """
        self._folder = folder
        self._controllers = (*_RUN, *controllers)
        self._log = folder.with_name(f"{folder.name}.log")
        self._token = secrets.token_hex(16)
        self._port = free_port(0)
        self._processes = ExitStack()

    @property
    def kubeconfig(self) -> Path:
        """A file by which clients are the administrator."""
        return self._folder / "kubeconfig"

    def __enter__(self) -> Self:
        programs = [each.obtain(self._log) for each in PROGRAMS]
        self._write_files()
        try:
            for program, options, path in zip(programs, self._options(), _ANSWERS, strict=True):
                self._start(program, options)
                if path:
                    self._await(path)
        except BaseException:
            self._processes.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.close()

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, kind: str = "application/json"
    ) -> Any:
        """Send a request of the administrator. Returns the answer's JSON. Raises Refused."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        request = urllib.request.Request(f"https://127.0.0.1:{self._port}{path}", content, headers, method=method)
        context = ssl.create_default_context(cafile=str(self._folder / "certificates" / "apiserver.crt"))
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_S, context=context) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode()) from None

    def _start(self, program: Path, options: Mapping[str, object]) -> None:
        words = [f"--{name}={value}" for name, value in options.items()]
        log = self._folder / f"{program.name}.log"
        process = ServerProcess.start([str(program), *words], log, {"HOME": str(self._folder)})
        self._processes.callback(process.stop)

    def _options(self) -> list[dict[str, object]]:
        """Return the options of each program, in the order of PROGRAMS."""
        client, peer = (f"http://127.0.0.1:{free_port(0)}" for _ in range(2))
        key = self._folder / "accounts.key"
        etcd: dict[str, object] = {
            "data-dir": self._folder / "etcd",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "unsafe-no-fsync": "true",
        }
        server: dict[str, object] = {
            "etcd-servers": client,
            "bind-address": "127.0.0.1",
            "secure-port": self._port,
            "cert-dir": self._folder / "certificates",
            "token-auth-file": self._folder / "tokens.csv",
            "authorization-mode": "RBAC",
            "service-cluster-ip-range": "10.96.0.0/16",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
        }
        controllers: dict[str, object] = {
            "kubeconfig": self.kubeconfig,
            "authentication-kubeconfig": self.kubeconfig,
            "authorization-kubeconfig": self.kubeconfig,
            "service-account-private-key-file": key,
            "controllers": ",".join(self._controllers),
            "leader-elect": "false",
            "secure-port": 0,
            "kube-api-qps": 200,
            "kube-api-burst": 400,
        }
        return [etcd, server, controllers]

    def _write_files(self) -> None:
        (self._folder / "certificates").mkdir(parents=True)
        (self._folder / "tokens.csv").write_text(f"{self._token},administrator,administrator,system:masters\n")
        key = rsa.generate_private_key(65537, 2048).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (self._folder / "accounts.key").write_bytes(key)
        cluster = {
            "server": f"https://127.0.0.1:{self._port}",
            "certificate-authority": str(self._folder / "certificates" / "apiserver.crt"),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": self._token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        self.kubeconfig.write_text(json.dumps(config))  # JSON is YAML

    def _await(self, path: str) -> None:
        """Block until a request for this path succeeds. Raises ServiceError with the end of each log."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            try:
                self.request("GET", path)
            except (Refused, OSError):  # not yet
                time.sleep(0.2)
            else:
                return
        logs = "\n".join(f"{log}:\n{tail(log)}" for log in self._folder.glob("*.log"))
        raise ServiceError(f"Kubernetes did not answer {path}; the ends of its logs:\n{logs}")
