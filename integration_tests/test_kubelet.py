"""The Helm chart on a node of Kubernetes: drivers are containers of the product's image, which kubelet starts."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy.engine import make_url

from integration_tests import topics
from integration_tests.harness.chart import Chart, Object
from integration_tests.harness.link import Link
from integration_tests.harness.node import path_of
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.harness.stores import ON_MINIO, options_of
from integration_tests.harness.takeovers import await_rows
from integration_tests.services.image import TAG, build
from integration_tests.services.kafka_for_pods import KafkaForPods
from integration_tests.services.kubernetes_native import Kubernetes, Refused
from integration_tests.services.kubernetes_node import ADDRESS, CONTROLLERS, KubernetesNode
from integration_tests.test_chart_applied import Namespace, await_that, one
from tests.object_store import Bucket
from tests.page_http import Client

pytestmark = [
    pytest.mark.helm,
    pytest.mark.kubernetes,
    pytest.mark.node,
    pytest.mark.any_server,
    pytest.mark.in_turns,
    pytest.mark.xdist_group("kubernetes-node"),
    pytest.mark.timeout(1800),
]

_RECORDS: Final = 4 * CHECKPOINT_RECORDS
_TOKEN: Final = "a-token-of-the-page-of-a-driver"
_IMAGE: Final = {"repository": f"docker.io/library/{TAG.partition(':')[0]}", "tag": TAG.partition(":")[2]}
_START_S: Final = 240.0


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    with Kubernetes(tmp_path_factory.mktemp("kubernetes") / "cluster", CONTROLLERS) as found:
        yield found


@pytest.fixture(scope="module")
def node(kubernetes: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesNode]:
    image = build()
    with KubernetesNode(kubernetes, tmp_path_factory.mktemp("node") / "node") as found:
        found.load(image)
        yield found


@pytest.fixture(scope="module")
def kafka(node: KubernetesNode) -> Iterator[KafkaForPods]:
    del node  # which has the network that the broker listens on
    with KafkaForPods(ADDRESS) as found:
        yield found


@pytest.fixture
def pipeline(kafka: KafkaForPods, database: str, tmp_path: Path) -> Iterator[Pipeline]:
    """A pipeline whose source and sink have addresses that pods reach."""
    folder = tmp_path / "pipeline"
    folder.mkdir()
    topic = f"eos-{secrets.token_hex(5)}"
    topics.create(kafka.bootstrap, topic, PARTITIONS, {})
    url = make_url(database)
    assert url.host is not None
    assert url.port is not None
    with (
        Pipeline(folder, kafka.bootstrap, topic, database) as made,
        Link(url.host, url.port, listens=ADDRESS) as link,
    ):
        made.table.create()
        made.source["bootstrap_servers"] = kafka.bootstrap_of_pods
        seen = url.set(host=ADDRESS, port=link.port).update_query_dict({"ssl_disabled": "true"})
        made.environment["SINK_URL"] = seen.render_as_string(hide_password=False)
        yield made


@dataclass(frozen=True, slots=True)
class Release:
    """The release `shop` with one pipeline and a standby."""

    namespace: Namespace
    pipeline: Pipeline
    node: KubernetesNode

    def values(self, interval: str) -> dict[str, Any]:
        """Return the chart's values. Another interval makes it another spec."""
        self.pipeline.spec["checkpoint"]["interval"] = interval
        spec = json.dumps(self.pipeline.spec, indent=2)  # JSON is YAML
        resources = {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "3Gi"}}
        settings = one(spec, standby=1, envFrom=[{"secretRef": {"name": "orders"}}], resources=resources)
        return {**settings, "image": {**_IMAGE, "pullPolicy": "Never"}}

    def is_rolled_out(self) -> bool:
        """Return whether both drivers are ready, and of the newest spec."""
        (found,) = self.namespace.listed("deployments", "apis/apps/v1")
        counts = [found["status"].get(name) for name in ("replicas", "updatedReplicas", "readyReplicas")]
        is_seen = found["status"].get("observedGeneration") == found["metadata"]["generation"]
        return bool(is_seen and counts == [2, 2, 2])

    def pods(self) -> dict[str, Object]:
        """Return the pods, by name."""
        return {each["metadata"]["name"]: each for each in self.namespace.listed("pods")}

    def states(self) -> dict[str, str]:
        """Return the states that the pages of the drivers show, by pod."""
        found: dict[str, str] = {}
        for name, pod in self.pods().items():
            client = Client(f"http://{pod['status'].get('podIP')}:8080", _TOKEN)
            try:
                found[name] = client.api(self.pipeline.workload.topic)["state"]
            except OSError:  # it starts, or ends
                found[name] = "silent"
        return found

    def found(self) -> str:
        """Return what can be seen of a release that is not as a test waits for it."""
        events = [each.get("message") for each in self.namespace.listed("events")]
        return f"{self.states()}\n{events}\n{self.node.logs()}"

    def await_drivers(self) -> str:
        """Wait until one driver runs and one waits. Return the pod of the first one."""

        def is_so() -> bool:
            return self.is_rolled_out() and sorted(self.states().values()) == ["running", "standby"]

        await_that(is_so, self.found, _START_S)
        return next(name for name, state in self.states().items() if state == "running")


@ON_MINIO
def test_containers_that_are_updated_deleted_and_killed_lose_and_double_nothing(
    kubernetes: Kubernetes, node: KubernetesNode, pipeline: Pipeline, bucket: Bucket, tmp_path: Path
) -> None:
    pipeline.address = bucket.address("eos/orders")
    with ExitStack() as stack:
        store = stack.enter_context(Link("127.0.0.1", bucket.port, listens=ADDRESS))
        options = {**options_of(pipeline, bucket), "endpoint": f"http://{ADDRESS}:{store.port}"}
        pipeline.spec["checkpoint"] |= {"location": str(pipeline.address), "location_options": options}
        namespace = Namespace(kubernetes, "node", Chart(tmp_path))
        secrets_of = {**pipeline.environment, "EOS_UI_TOKEN": _TOKEN, "EOS_UI_READ_TOKEN": _TOKEN[::-1]}
        data = {name: base64.b64encode(value.encode()).decode() for name, value in secrets_of.items()}
        body = {"metadata": {"name": "orders"}, "data": data}
        kubernetes.request("POST", "/api/v1/namespaces/node/secrets", body)
        release = Release(namespace, pipeline, node)

        namespace.install(release.values("100ms"))
        release.await_drivers()
        pipeline.workload.produce(_RECORDS)
        await_rows(pipeline, _START_S)

        first, old = pipeline.head.epoch, release.pods()
        namespace.upgrade(release.values("200ms"))
        produced, begin = 0, time.monotonic()
        while not release.is_rolled_out() or old.keys() & release.pods().keys():
            assert time.monotonic() - begin < 2 * _START_S, release.found()
            pipeline.workload.produce(20)
            produced += 20
            time.sleep(0.5)
        await_rows(pipeline, _START_S)
        print(f"{time.monotonic() - begin:.1f} s for an update of two drivers, {produced} records")
        assert first < pipeline.head.epoch <= first + 2, "each of the two may have run the pipeline"

        for number in range(2):
            running = release.await_drivers()
            pod, epoch = release.pods()[running], pipeline.head.epoch
            pipeline.workload.produce(_RECORDS)
            begin = time.monotonic()
            if number == 0:
                kubernetes.request("DELETE", path_of(pod), {"gracePeriodSeconds": 0})
            os.kill(node.process_of(pod), signal.SIGKILL)
            await_rows(pipeline, _START_S)
            print(f"{time.monotonic() - begin:.1f} s from the kill of the driver to the last row")
            assert pipeline.head.epoch == epoch + 1
            release.await_drivers()
            if number == 0:
                with pytest.raises(Refused, match="not found"):
                    kubernetes.request("GET", path_of(pod))
                assert running not in release.pods()
            else:
                (status,) = release.pods()[running]["status"]["containerStatuses"]
                assert status["restartCount"] == 1
                assert status["lastState"]["terminated"]["exitCode"] == 137
        namespace.helm("uninstall", "shop")
        await_that(lambda: release.pods() == {}, release.found, 120)
    pipeline.assert_exact(at_least=3 * _RECORDS + produced)
