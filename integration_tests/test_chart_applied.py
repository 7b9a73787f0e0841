"""The Helm chart in a Kubernetes: a real API server and its controllers, and drivers as processes of this machine."""

from __future__ import annotations

import base64
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from integration_tests.harness.chart import CHART, STORE, VOLUME, Chart, Object
from integration_tests.harness.node import Node, bind, path_of, remove, set_ready
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.stores import options_of
from integration_tests.harness.takeovers import await_rows
from integration_tests.services.kubernetes_native import Kubernetes, Refused
from integration_tests.services.kubernetes_tools import service_monitors
from integration_tests.test_chart import ALL
from tests.object_store import Bucket
from tests.page_http import Client

pytestmark = [
    pytest.mark.helm,
    pytest.mark.kubernetes,
    pytest.mark.any_server,
    pytest.mark.xdist_group("kubernetes"),
    pytest.mark.timeout(600),
]

_PATIENCE_S: Final = 60.0
_RESTRICTED: Final = {"pod-security.kubernetes.io/enforce": "restricted"}
_PAUSE_S: Final = 40.0
"""Three times as long as an update pauses a pipeline on two cores that two other drivers use, too."""
_TOKEN: Final = "a-token-of-the-page-of-a-driver"


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    with Kubernetes(tmp_path_factory.mktemp("kubernetes") / "cluster") as found:
        found.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", service_monitors())
        yield found


class Namespace:
    """A namespace of one test, that admits only restricted pods, with the release `shop`."""

    def __init__(self, kubernetes: Kubernetes, name: str, chart: Chart) -> None:
        self.kubernetes = kubernetes
        self.name = name
        self.chart = chart
        body = {"metadata": {"name": name, "labels": _RESTRICTED}}
        kubernetes.request("POST", "/api/v1/namespaces", body)

    def helm(self, *words: str, values: dict[str, Any] | None = None) -> str:
        """Run helm here; returns what it has printed. Raises AssertionError with its message."""
        options = ("--namespace", self.name, "--kubeconfig", str(self.kubernetes.kubeconfig))
        done = self.chart.helm(*words, *options, values=values)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return done.stdout + done.stderr

    def install(self, values: dict[str, Any]) -> str:
        """Install the release."""
        return self.helm("install", "shop", str(self.chart.path), values=values)

    def upgrade(self, values: dict[str, Any]) -> str:
        """Upgrade the release."""
        return self.helm("upgrade", "shop", str(self.chart.path), values=values)

    def listed(self, kind: str, group: str = "api/v1") -> list[Object]:
        """Return all objects of a kind, as the API names it in a path."""
        found: list[Object] = self.kubernetes.request("GET", f"/{group}/namespaces/{self.name}/{kind}")["items"]
        return found

    def pods(self, count: int) -> list[Object]:
        """Wait until there are so many pods."""
        await_that(lambda: len(self.listed("pods")) == count, lambda: f"{count} pods: {self.listed('pods')}")
        return self.listed("pods")


def await_that(condition: Callable[[], bool], wanted: Callable[[], str], patience_s: float = _PATIENCE_S) -> None:
    """Wait for a condition. Fails with what was wanted."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, wanted()
        time.sleep(0.1)


@pytest.fixture
def namespace(kubernetes: Kubernetes, tmp_path: Path, request: pytest.FixtureRequest) -> Namespace:
    name = request.node.originalname.removeprefix("test_").replace("_", "-")[:50].strip("-")
    return Namespace(kubernetes, name, Chart(tmp_path))


def one(spec: str = STORE, **settings: Any) -> dict[str, Any]:
    return {"pipelines": {"orders": {"spec": spec, **settings}}}


def test_every_object_is_stored_and_each_pod_admitted(namespace: Namespace) -> None:
    values = {**ALL, "pipelines": {**ALL["pipelines"]}}
    values["pipelines"]["orders"] = {**values["pipelines"]["orders"], "priorityClassName": ""}
    assert "orders: 1 driver and 2 standbys" in namespace.install(values)
    kinds = {
        "api/v1": {"configmaps": 3, "services": 3, "serviceaccounts": 4},  # one more of each is Kubernetes' own
        "apis/apps/v1": {"deployments": 1, "statefulsets": 2},
        "apis/policy/v1": {"poddisruptionbudgets": 3},
        "apis/networking.k8s.io/v1": {"networkpolicies": 3},
        "apis/monitoring.coreos.com/v1": {"servicemonitors": 1},
    }
    for group, counts in kinds.items():
        for kind, count in counts.items():
            found = [each["metadata"]["name"] for each in namespace.listed(kind, group)]
            assert len([each for each in found if each != "kube-root-ca.crt"]) == count - (kind == "configmaps"), kind
    names = sorted(each["metadata"]["name"] for each in namespace.pods(5))
    assert [name for name in names if not name.startswith("shop-orders-")] == ["shop-clicks-0", "shop-visits-0"]
    (claim,) = namespace.listed("persistentvolumeclaims")
    namespace.helm("uninstall", "shop")
    await_that(lambda: namespace.listed("pods") == [], lambda: "no pods")
    assert [each["metadata"]["name"] for each in namespace.listed("persistentvolumeclaims")] == [
        claim["metadata"]["name"]
    ]


def test_the_namespace_admits_no_other_pod(namespace: Namespace) -> None:
    """The check that the others rely on."""
    namespace.install(one(securityContext={"allowPrivilegeEscalation": True}))
    await_that(
        lambda: any(each["reason"] == "FailedCreate" for each in namespace.listed("events")),
        lambda: "a pod that was refused",
    )
    assert namespace.listed("pods") == []


def test_the_server_refuses_a_field_that_it_does_not_know(namespace: Namespace, tmp_path: Path) -> None:
    broken = tmp_path / "chart"
    shutil.copytree(CHART, broken)
    template = broken / "templates" / "driver.yaml"
    template.write_text(template.read_text().replace("revisionHistoryLimit", "revisionHistory"))
    namespace.chart = Chart(tmp_path, broken)
    with pytest.raises(AssertionError, match=r"spec\.revisionHistory.*field not declared in schema"):
        namespace.install(one())


def test_an_update_of_a_pipeline_in_a_store_keeps_the_old_driver_until_a_standby_is_ready(
    namespace: Namespace,
) -> None:
    namespace.install(one())
    (old,) = namespace.pods(1)
    bind(namespace.kubernetes, old)
    set_ready(namespace.kubernetes, old)
    namespace.upgrade(one(f"{STORE}# changed\n"))
    new = next(each for each in namespace.pods(2) if each["metadata"]["name"] != old["metadata"]["name"])
    bind(namespace.kubernetes, new)
    set_ready(namespace.kubernetes, new, is_ready=False)
    time.sleep(2)
    assert "deletionTimestamp" not in namespace.kubernetes.request("GET", path_of(old))["metadata"]
    set_ready(namespace.kubernetes, new)
    await_that(
        lambda: "deletionTimestamp" in namespace.kubernetes.request("GET", path_of(old))["metadata"],
        lambda: "the end of the old driver",
    )
    ending = namespace.kubernetes.request("GET", path_of(old))["metadata"]
    assert ending["deletionGracePeriodSeconds"] == 660


def test_an_update_of_a_pipeline_on_a_volume_starts_the_new_driver_after_the_old_one(namespace: Namespace) -> None:
    namespace.install(one(VOLUME))
    (old,) = namespace.pods(1)
    bind(namespace.kubernetes, old)
    set_ready(namespace.kubernetes, old)
    namespace.upgrade(one(f"{VOLUME}# changed\n"))
    await_that(
        lambda: "deletionTimestamp" in namespace.kubernetes.request("GET", path_of(old))["metadata"],
        lambda: "the end of the old driver",
    )
    time.sleep(2)
    assert [each["metadata"]["uid"] for each in namespace.listed("pods")] == [old["metadata"]["uid"]]
    remove(namespace.kubernetes, old)
    await_that(
        lambda: [each["metadata"]["uid"] for each in namespace.listed("pods")] not in ([], [old["metadata"]["uid"]]),
        lambda: "the new driver",
    )
    assert len(namespace.listed("pods")) == 1


def test_a_drain_evicts_one_driver_at_a_time(namespace: Namespace) -> None:
    namespace.install(one(standby=1))
    pods = namespace.pods(2)
    for pod in pods:
        bind(namespace.kubernetes, pod)
        set_ready(namespace.kubernetes, pod)

    def allowed() -> int:
        (budget,) = namespace.listed("poddisruptionbudgets", "apis/policy/v1")
        return int(budget.get("status", {}).get("disruptionsAllowed", 0))

    await_that(lambda: allowed() == 1, lambda: "a budget of one")
    evict(namespace.kubernetes, pods[0])
    with pytest.raises(Refused) as refusal:
        evict(namespace.kubernetes, pods[1])
    assert refusal.value.status == 429


def evict(kubernetes: Kubernetes, pod: Object) -> None:
    """Have a pod end, by the request that `kubectl drain` sends."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"]}}
    kubernetes.request("POST", f"{path_of(pod)}/eviction", body)


@pytest.mark.in_turns
@pytest.mark.timeout(900)
def test_a_rolling_update_and_a_killed_driver_lose_and_double_nothing(
    namespace: Namespace, pipeline: Pipeline, bucket: Bucket
) -> None:
    """Every word of the pods' command lines, variables and files is what the chart has rendered."""
    kubernetes = namespace.kubernetes
    pipeline.address = bucket.address("eos/orders")
    options = options_of(pipeline, bucket)
    pipeline.spec["checkpoint"] |= {"location": str(pipeline.address), "location_options": options}
    secrets = {**pipeline.environment, "EOS_UI_TOKEN": _TOKEN, "EOS_UI_READ_TOKEN": _TOKEN[::-1]}
    data = {name: base64.b64encode(value.encode()).decode() for name, value in secrets.items()}
    body = {"metadata": {"name": "orders"}, "data": data}
    kubernetes.request("POST", f"/api/v1/namespaces/{namespace.name}/secrets", body)

    def values(interval: str) -> dict[str, Any]:
        pipeline.spec["checkpoint"]["interval"] = interval
        spec = json.dumps(pipeline.spec, indent=2)  # JSON is YAML
        return one(spec, standby=1, envFrom=[{"secretRef": {"name": "orders"}}])

    with Node(kubernetes, namespace.name, pipeline) as node:

        def states() -> list[str]:
            clients = [Client(f"http://127.0.0.1:{each.port}", _TOKEN) for each in node.running.values()]
            return sorted(client.api(pipeline.workload.topic)["state"] for client in clients)

        def rolled_out() -> bool:
            (found,) = namespace.listed("deployments", "apis/apps/v1")
            counts = [found["status"].get(name) for name in ("replicas", "updatedReplicas", "readyReplicas")]
            is_seen = found["status"].get("observedGeneration") == found["metadata"]["generation"]
            return is_seen and counts == [2, 2, 2]

        namespace.install(values("100ms"))
        await_that(rolled_out, lambda: str(node.running), 180)
        await_that(lambda: states() == ["running", "standby"], lambda: str(states()))
        pipeline.workload.produce(4 * CHECKPOINT_RECORDS)
        await_rows(pipeline)
        first = pipeline.head.epoch
        assert first <= 2, "two that start at one moment may both begin: the second one fences the first"
        before, polls = dict(node.running), len(node.wanted)
        namespace.upgrade(values("200ms"))
        produced, longest_s = 0, 0.0
        begin = progressed = time.monotonic()
        completed = pipeline.head.completed
        while not rolled_out() or before.keys() & node.running.keys():
            assert time.monotonic() - begin < 300, str(node.running)
            pipeline.workload.produce(50)
            produced += 50
            time.sleep(0.2)
            if pipeline.head.completed > completed:
                completed, progressed = pipeline.head.completed, time.monotonic()
            longest_s = max(longest_s, time.monotonic() - progressed)
        await_rows(pipeline)
        took_s = time.monotonic() - begin
        print(
            f"{took_s:.1f} s for an update of two drivers, {produced} records; {longest_s:.1f} s without a checkpoint"
        )
        assert longest_s < _PAUSE_S
        assert set(node.wanted[polls:]) == {2, 3}
        assert set(node.ended.values()) == {0}
        assert len(node.ended) == 2
        assert first + 1 <= pipeline.head.epoch <= first + 2, "each of the two may have run the pipeline"
        epoch = pipeline.head.epoch
        await_that(lambda: states() == ["running", "standby"], lambda: str(states()))
        (driver,) = (
            each
            for each in node.running.values()
            if Client(f"http://127.0.0.1:{each.port}", _TOKEN).api(pipeline.workload.topic)["state"] == "running"
        )
        pipeline.workload.produce(4 * CHECKPOINT_RECORDS)
        driver.process.kill()
        killed_s = await_rows(pipeline)
        print(f"{killed_s:.1f} s from the kill of the driver to the last row")
        assert pipeline.head.epoch == epoch + 1
        namespace.helm("uninstall", "shop")
        await_that(lambda: namespace.listed("pods") == [], lambda: str(node.running), 120)
    pipeline.assert_exact(at_least=8 * CHECKPOINT_RECORDS + produced)
