"""A pipeline whose addresses are all of IPv6: broker, databases, the page, and what messages call them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy

from integration_tests import topics
from integration_tests.harness.link import Link
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.services.kafka_secured import SecuredKafka
from tests.page_http import client_of

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 3 * CHECKPOINT_RECORDS
_LOOPBACK = "::1"


@pytest.fixture
def reached(database: str, postgres_database: str) -> Iterator[tuple[str, str]]:
    """Both databases by an address of IPv6."""
    with ExitStack() as stack:
        yield _by_ipv6(database, stack), _by_ipv6(postgres_database, stack)


def _by_ipv6(url: str, stack: ExitStack) -> str:
    parsed = sqlalchemy.make_url(url)
    link = stack.enter_context(Link(parsed.host or "", parsed.port or 0, listens=_LOOPBACK))
    return parsed.set(host=_LOOPBACK, port=link.port).render_as_string(hide_password=False)


@pytest.fixture
def topic(secured_kafka: SecuredKafka) -> Iterator[str]:
    topics.create(secured_kafka.bootstrap, "by-ipv6", PARTITIONS, {})
    yield "by-ipv6"
    topics.delete(secured_kafka.bootstrap, ["by-ipv6"])


@pytest.mark.timeout(600)
def test_every_address_may_be_of_ipv6(
    secured_kafka: SecuredKafka, reached: tuple[str, str], topic: str, tmp_path: Path
) -> None:
    sink, head = reached
    with Pipeline(tmp_path, secured_kafka.listener("IPV6"), topic, sink) as pipeline:
        pipeline.spec["checkpoint"]["head"] = "${env:HEAD_URL}"
        pipeline.environment["HEAD_URL"] = head
        pipeline.table.create()
        pipeline.workload.produce(_RECORDS)
        findings = pipeline.command("doctor")
        findings.succeed()
        assert "[::1]:" in findings.output()
        process = pipeline.command("run", "--ui", "--ui-host", _LOOPBACK, "--ui-port", "0")
        process.await_output("page: http://[::1]:")
        assert client_of(process.output()).get("/healthz").status == 200
        process.kill()
        pipeline.catch_up()
        verdict = pipeline.verdict()
        assert verdict.exact, str(verdict)
        assert verdict.in_sink == _RECORDS
