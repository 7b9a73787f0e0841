"""TLS, SASL and rights of Kafka, on a broker that asks for them: what works, and how what does not is told."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration_tests import topics
from integration_tests.harness import kafka_client, typed
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.drain import drain
from integration_tests.harness.pipeline import PARTITIONS
from integration_tests.harness.pipeline_process import child_environment
from integration_tests.services.kafka_secured import SecuredKafka
from integration_tests.test_kafka_sink import KafkaPipeline

pytestmark = [pytest.mark.any_server]

_SECRET = "sesame-7-street"
_RECORDS = 1_200


@dataclass(frozen=True, slots=True)
class Tenant:
    """A user of the broker with topics of its own: those of the docs under another name, for one test."""

    broker: SecuredKafka
    name: str
    folder: Path

    @property
    def security(self) -> dict[str, Any]:
        """Of a spec."""
        sasl = {"mechanism": "SCRAM-SHA-512", "username": self.name, "password": "${env:SECRET}"}
        return {"tls": {"ca": str(self.broker.ca)}, "sasl": sasl}

    def type_in(self, *blocks: str) -> None:
        """Commands of the docs, as an administrator."""
        kafka_client.install(self.folder / "bin")
        variables = {"KAFKA": self.broker.bootstrap, "SECRET": _SECRET}
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        script = "".join(blocks).replace("orders", self.name)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env={**child_environment(variables), "PATH": path},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"


@pytest.fixture
def tenant(secured_kafka: SecuredKafka, tmp_path: Path) -> Iterator[Tenant]:
    made = Tenant(secured_kafka, f"t{secrets.token_hex(4)}", tmp_path)
    names = [made.name, f"{made.name}.big", f"{made.name}.bad"]
    for name in names:
        topics.create(secured_kafka.bootstrap, name, PARTITIONS, {})
    yield made
    topics.delete(secured_kafka.bootstrap, names)


@pytest.mark.timeout(600)
def test_a_pipeline_through_tls_with_the_rights_of_the_docs_and_no_others(tenant: Tenant, eos: CommandLine) -> None:
    """Source, sink and dead letters as one user; `eos doctor` finds all well, and nothing shows the password."""
    tenant.type_in(*typed.blocks("security.md", "Kafka's rights"))
    folder = tenant.folder / "pipeline"
    folder.mkdir()
    with KafkaPipeline(folder, tenant.broker.bootstrap, tenant.name, f"{tenant.name}.big") as pipeline:
        listener = tenant.broker.listener("TLS")
        shared = {"bootstrap_servers": listener, "security": tenant.security}
        pipeline.source.update(shared)
        pipeline.sink.update({**shared, "markers": f"{tenant.name}.markers"})
        pipeline.spec["dead_letter"] = {
            "connector": "kafka",
            **shared,
            "topic": f"{tenant.name}.bad",
            "markers": f"{tenant.name}.markers",
        }
        pipeline.environment["SECRET"] = _SECRET
        spec = str(pipeline.write_spec())
        found = eos.run(["doctor", spec, "--json"], pipeline.environment)
        assert found.code == 0, found.output
        pipeline.workload.produce(_RECORDS)
        pipeline.workload.produce_bad("no JSON")
        pipeline.catch_up()
        pipeline.assert_exact(at_least=_RECORDS)
        letters = drain(tenant.broker.bootstrap, f"{tenant.name}.bad")
        assert [letter.value for letter in letters] == [b"no JSON"]
        listed = eos.run(["dead-letters", "list", spec, "--json"], pipeline.environment)
        assert len(json.loads(listed.output)["dead_letters"]) == 1, listed.output
        shown = eos.run(["preview", spec], pipeline.environment)
        assert shown.code == 0, shown.output
        said = [found.output, listed.output, shown.output, *(each.output() for each in pipeline.processes)]
        kept = [path.read_text(errors="replace") for path in pipeline.location.rglob("*") if path.is_file()]
        assert not [text for text in [*said, *kept] if _SECRET in text]
