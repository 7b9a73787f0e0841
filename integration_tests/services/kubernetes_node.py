"""A node of Kubernetes on this machine: containerd, kubelet, a scheduler, and a network of its pods.

The network is a bridge without a way to other machines. Programs of this machine serve pods at the bridge's address.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from integration_tests.services.go_programs import GoProgram
from integration_tests.services.kubernetes_native import Kubernetes, Refused, part_of_kubernetes
from integration_tests.services.processes import ServerProcess
from integration_tests.services.state import free_port, tail
from integration_tests.services.values import ServiceError

NAME: Final = "here"
ADDRESS: Final = "10.231.7.1"
"""Address of this machine on the network of the pods."""

_SUBNET: Final = "10.231.7.0/24"
_BRIDGE: Final = "eos-pods"
_PLUGINS: Final = "github.com/containernetworking/plugins/plugins"
_PLUGINS_VERSION: Final = "v1.9.1"
_NETWORK: Final = (
    GoProgram("bridge", f"{_PLUGINS}/main/bridge", _PLUGINS_VERSION),
    GoProgram("loopback", f"{_PLUGINS}/main/loopback", _PLUGINS_VERSION),
    GoProgram("host-local", f"{_PLUGINS}/ipam/host-local", _PLUGINS_VERSION),
)
_KUBELET: Final = part_of_kubernetes("kubelet")
_SCHEDULER: Final = part_of_kubernetes("kube-scheduler")
PROGRAMS: Final = (_KUBELET, _SCHEDULER, *_NETWORK)
_INSTALLED: Final = ("docker", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip")
"""Programs of the distribution: a Docker engine has the first five."""

CONTROLLERS: Final = ("node-lifecycle-controller",)
"""The controllers that a cluster with this node has beside the others: a node takes no pods before it is ready."""

_PAUSE: Final = "eos-pause:test"
_SYSCTLS: Final = tuple(Path("/proc/sys") / each for each in ("vm/overcommit_memory", "vm/panic_on_oom"))
_KERNEL: Final = tuple(
    Path("/proc/sys/kernel") / each for each in ("panic", "panic_on_oops", "keys/root_maxkeys", "keys/root_maxbytes")
)
_FOLDERS: Final = tuple(map(Path, ("/var/lib/kubelet", "/var/log/containers", "/var/lib/cni")))
"""Folders of a node that no option moves."""
_NETWORKS: Final = Path("/run/netns")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_START_S: Final = 120.0
_END_S: Final = 60.0


def is_obtained() -> bool:
    """Return whether this user can run a node here: its programs are built, and the others installed."""
    return os.getuid() == 0 and all(map(shutil.which, _INSTALLED)) and all(each.is_built() for each in PROGRAMS)


class KubernetesNode:
    """The only node of a cluster. As a context manager it runs inside the block. Needs root.

    Its folder is removed at the end: images and containers take gigabytes.
    """

    def __init__(self, kubernetes: Kubernetes, folder: Path) -> None:
        self._kubernetes = kubernetes
        self._folder = folder
        self._socket = folder / "containerd.sock"
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def load(self, image: str) -> None:
        """Copy an image of the Docker engine to the node. Called once, before the first pod.

        An image of the same layers is that of the first container of each pod, which holds the pod's network.
        """
        text = f'FROM {image}\nENTRYPOINT ["sleep", "infinity"]\nCMD []\n'
        command = ["docker", "build", "--quiet", "--tag", _PAUSE, "-"]
        subprocess.run(command, input=text.encode(), check=True, capture_output=True)
        with subprocess.Popen(["docker", "save", image, _PAUSE], stdout=subprocess.PIPE) as saved:
            command = [*self._ctr, "images", "import", "--digests=false", "-"]
            done = subprocess.run(command, stdin=saved.stdout, capture_output=True, text=True, check=False)
        if done.returncode != 0 or saved.returncode != 0:
            raise ServiceError(f"{image} was not copied to the node: {done.stderr}")

    def process_of(self, pod: Mapping[str, Any]) -> int:
        """Return the process of a pod's container."""
        (status,) = pod["status"]["containerStatuses"]
        identity = status["containerID"].removeprefix("containerd://")
        return next(int(each[1]) for each in self._tasks() if each[0] == identity)

    def logs(self) -> str:
        """Return the ends of all logs."""
        logs = (*self._folder.glob("*.log"), *self._folder.glob("pods/**/*.log"))
        return "\n".join(f"{log}:\n{tail(log)}" for log in logs)

    def _start(self) -> None:
        log = self._folder.with_name(f"{self._folder.name}.build.log")
        kubelet, scheduler, *plugins = (each.obtain(log) for each in PROGRAMS)
        self._stack.callback(self._remove_folders, [each for each in _FOLDERS if not each.exists()])
        (self._folder / "cni").mkdir(parents=True)
        for each in plugins:
            (self._folder / "cni" / each.name).symlink_to(each)
        self._write_files()
        for path in (*_SYSCTLS, *_KERNEL):  # kubelet sets them
            self._stack.callback(path.write_text, path.read_text())
        self._add_bridge()
        self._run("containerd", "containerd", "--config", str(self._folder / "containerd.toml"))
        self._await("containerd", lambda: self._succeeds([*self._ctr, "version"]))
        config = f"--kubeconfig={self._kubernetes.kubeconfig}"
        self._run(
            "kubelet",
            str(kubelet),
            config,
            f"--config={self._folder / 'kubelet.json'}",
            f"--root-dir={self._folder / 'kubelet'}",
            f"--cert-dir={self._folder / 'kubelet' / 'pki'}",
            f"--hostname-override={NAME}",
            f"--node-ip={ADDRESS}",
        )
        self._stack.callback(self._remove_pods)  # without a scheduler, others do not start instead
        words = (config, "--leader-elect=false", "--secure-port=0", "--authentication-skip-lookup=true")
        self._run("scheduler", str(scheduler), *words)
        self._await("the node", self._is_ready)

    @property
    def _ctr(self) -> list[str]:
        return ["ctr", "--address", str(self._socket), "--namespace", "k8s.io"]

    def _run(self, name: str, *command: str) -> None:
        environment = {"HOME": str(self._folder)}
        process = ServerProcess.start(command, self._folder / f"{name}.log", environment)
        self._stack.callback(process.stop)

    def _add_bridge(self) -> None:
        def ip(*words: str) -> None:
            done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                remedy = f"If no other node runs on this machine, run: ip link delete {_BRIDGE}"
                raise ServiceError(f"`ip {' '.join(words)}` failed: {done.stderr}  {remedy}")

        ip("link", "add", _BRIDGE, "type", "bridge")
        self._stack.callback(ip, "link", "delete", _BRIDGE)
        ip("address", "add", f"{ADDRESS}/24", "dev", _BRIDGE)
        ip("link", "set", _BRIDGE, "up")

    def _is_ready(self) -> bool:
        try:
            node = self._kubernetes.request("GET", f"/api/v1/nodes/{NAME}")
        except Refused:  # not registered yet
            return False
        conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}
        return conditions.get("Ready") == "True" and not node["spec"].get("taints")

    def _await(self, what: str, condition: Callable[[], bool], patience_s: float = _START_S) -> None:
        deadline = time.monotonic() + patience_s
        while not condition():
            if time.monotonic() > deadline:
                raise ServiceError(f"{what} is not ready; the ends of the logs:\n{self.logs()}")
            time.sleep(0.2)

    def _succeeds(self, command: list[str]) -> bool:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _tasks(self) -> list[list[str]]:
        done = subprocess.run([*self._ctr, "tasks", "list"], capture_output=True, text=True, check=False)
        return [line.split() for line in done.stdout.splitlines()[1:]]

    def _remove_pods(self) -> None:
        """Have kubelet end all pods; then containerd ends what is left."""
        with suppress(Refused, OSError):
            for pod in self._kubernetes.request("GET", "/api/v1/pods")["items"]:
                where = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
                with suppress(Refused):
                    self._kubernetes.request("DELETE", where, {"gracePeriodSeconds": 0})
            with suppress(ServiceError):
                self._await("the end of all pods", lambda: not self._tasks(), _END_S)
        for task in self._tasks():
            subprocess.run([*self._ctr, "tasks", "delete", "--force", task[0]], capture_output=True, check=False)

    def _remove_folders(self, folders: Sequence[Path]) -> None:
        """Remove what kubelet and containerd leave of pods that they could not end, too."""
        for line in reversed(Path("/proc/mounts").read_text().splitlines()):
            mount = Path(line.split()[1])
            is_network = mount.parent == _NETWORKS and mount.name.startswith("cni-")
            if is_network or mount.is_relative_to(self._folder):
                subprocess.run(["umount", str(mount)], check=False)
            if is_network:
                mount.unlink()
        for cgroup in sorted(_CGROUPS.glob("*/k8s.io/**/"), reverse=True):  # each after those in it
            cgroup.rmdir()
        for each in (self._folder, *folders):
            shutil.rmtree(each, ignore_errors=each is not self._folder)

    def _write_files(self) -> None:
        addresses: dict[str, Any] = {
            "type": "host-local",
            "dataDir": str(self._folder / "addresses"),
            "ranges": [[{"subnet": _SUBNET, "gateway": ADDRESS}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        plugin = {"type": "bridge", "bridge": _BRIDGE, "isGateway": True, "ipam": addresses}
        network = {"cniVersion": "1.0.0", "name": "pods", "plugins": [plugin]}
        (self._folder / "network").mkdir()
        (self._folder / "network" / "pods.conflist").write_text(json.dumps(network))
        (self._folder / "containerd.toml").write_text(self._containerd())
        (self._folder / "kubelet.json").write_text(json.dumps(self._kubelet()))  # JSON is YAML

    def _containerd(self) -> str:
        return f"""\
version = 2
root = "{self._folder}/root"
state = "{self._folder}/state"
[grpc]
  address = "{self._socket}"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true # root of a container may not lower it
  sandbox_image = "docker.io/library/{_PAUSE}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{self._folder}/cni"
    conf_dir = "{self._folder}/network"
"""

    def _kubelet(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "127.0.0.1",
            "port": free_port(0),
            "readOnlyPort": 0,
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{self._socket}",
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "podLogsDir": str(self._folder / "pods"),
            "volumePluginDir": str(self._folder / "volume-plugins"),
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        }
