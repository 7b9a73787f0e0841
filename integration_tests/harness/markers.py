"""The markers of the integration tests, for each pytest that imports one of their modules."""

from __future__ import annotations

from typing import Final

MARKERS: Final = (
    "alone: no other test may run beside it, since it stops a server, or takes its time",
    "any_server: the test is about Spark, Kafka or a command; one database server is enough for CI",
    "in_turns(part=1): the test starts Spark several times; a run takes some of these (harness/turns.py), and of each "
    "this part, where a seed chooses among its cases",
    "fault: the test kills, stops, cuts off or sets back; added by itself (harness/fault_tests.py)",
    "only_on(server, reason): the test is about this server (MySQL or MariaDB) and leaves out others",
    "registry: the test needs a schema registry; only where EOS_PROVIDE_REGISTRY names a program that runs one",
    "minio: the test needs MinIO; only where Go has built it or can, and not with EOS_WITHOUT_MINIO",
    "google: the test needs a server of Google Cloud Storage's protocol; only where `python -m "
    "integration_tests.services build` has built it",
    "azurite: the test needs Azurite, a server of Azure's protocol; only where the same command has installed it",
    "helm: the test needs Helm and kubeconform; only where `python -m integration_tests.services build` has built them",
    "kubernetes: the test needs a Kubernetes API server; only where the same command has built it",
    "node: the test builds the product's image for a node of Kubernetes; only with --image, for root, with containerd, "
    "where `python -m integration_tests.services build --node` has built kubelet (make node)",
    "image: the test builds the product's image, which takes minutes; only with --image (make image)",
)
