"""Another user of the machine at the ports of a running pipeline: no block is given, and no byte deserialized."""

from __future__ import annotations

import secrets
import time
from functools import partial

import pytest

from integration_tests.harness import session
from integration_tests.harness.intruder import as_nobody, deserialization_error, fetch_broadcasts, listening
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_VISIBLE_S = 240.0
_NEWEST = 40
"""Each checkpoint broadcasts its tasks, and what is not needed any more goes some minutes later."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("open_", [True, False], ids=["open, as the spec accepts", "closed"])
def test_at_the_ports_of_a_running_pipeline(pipeline: Pipeline, open_: bool) -> None:
    secret = f"planted-{secrets.token_hex(8)}"
    pipeline.source["properties"] = {"ssl.key.password": secret}
    pipeline.spec["spark"] = {
        "master": "local[2]",
        "conf": {"spark.broadcast.compress": "false", **({"spark.authenticate": "false"} if open_ else {})},
        "allow_unauthenticated": open_,
    }
    pipeline.workload.produce(3 * CHECKPOINT_RECORDS)
    process = pipeline.start(until_caught_up=False)
    deadline = time.monotonic() + _VISIBLE_S
    while pipeline.verdict().in_sink < 3 * CHECKPOINT_RECORDS:
        assert time.monotonic() < deadline, process.output()
        time.sleep(0.5)
    (jvm,) = [each for each in session.members(process.pid) if session.is_java(each)]
    ports = listening(jvm.pid)
    assert len(ports) >= 3, "the driver's RPC, the block manager, and the gateway to Python"
    fetched = as_nobody(partial(fetch_broadcasts, ports, _NEWEST))
    answers = [as_nobody(partial(deserialization_error, port)) for port in ports]
    assert (secret.encode() in fetched) is open_
    assert any("StreamCorruptedException" in answer for answer in answers) is open_
    if not open_:
        assert fetched == b""
        assert sum("IllegalArgumentException: Unknown challenge message" in answer for answer in answers) == 2
    process.terminate()
    process.succeed()
    pipeline.assert_exact(at_least=3 * CHECKPOINT_RECORDS)
