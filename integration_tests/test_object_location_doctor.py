"""`eos doctor` and the bucket of a checkpoint location: it finds the broken promise, and leaves head as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.stores import put_location
from tests.connectors.buckets.stores import deaf_to_match
from tests.object_store import KEYS, Bucket, Wire, lost_request

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

Lay = Callable[..., Wire]

_STORE, _REPLACE, _RULES = (f"location store{part}" for part in ("", ": conditional replace", ": lifecycle rules"))


@pytest.mark.timeout(600)
def test_the_doctor_proves_the_promises_of_the_bucket(
    pipeline: Pipeline, bucket: Bucket, wire: Lay, eos: CommandLine
) -> None:
    put_location(pipeline, bucket)
    pipeline.workload.produce(3 * CHECKPOINT_RECORDS)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=3 * CHECKPOINT_RECORDS)
    state = bucket.contents()
    assert "eos/orders/head" in state

    def failing(port: int | None = None) -> dict[str, Any]:
        """Findings that stop a run, by check. Nothing in the bucket has changed."""
        put_location(pipeline, bucket, port)
        ended = eos.run(["doctor", str(pipeline.write_spec()), "--json"], pipeline.environment)
        assert KEYS["secret_access_key"] not in ended.output
        assert bucket.contents() == state
        facts = json.loads(ended.output[ended.output.index("{\n") :])
        found = {each["check"]: each for each in facts["findings"]}
        assert "checkpoint.scratch" in found["scratch folder"]["detail"]
        assert {_STORE} <= found.keys()
        failed = {check: each for check, each in found.items() if each["fatal"] and not each["ok"]}
        assert (ended.code, facts["ok"]) == (1 if failed else 0, not failed), ended.output
        assert all(each["of"] == "checkpoint location" and each["remedy"] for each in failed.values())
        return failed

    assert failing() == {}
    assert failing(wire(deaf_to_match).port).keys() == {_REPLACE}
    assert failing(wire(lost_request).port).keys() == {_STORE}
    rule = {"ID": "tidy", "Status": "Enabled", "Filter": {"Prefix": "eos/"}, "Expiration": {"Days": 7}}
    bucket.s3.put_bucket_lifecycle_configuration(Bucket=bucket.name, LifecycleConfiguration={"Rules": [rule]})
    failed = failing()
    assert failed.keys() == {_RULES}
    assert "rule tidy" in failed[_RULES]["detail"]
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=4 * CHECKPOINT_RECORDS)
