"""Keys, headers and values of a hostile producer, from a topic to dead letters, to who lists them, and back."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from connectors.formats.plain import RawFormat
from connectors.kafka.source import KafkaSource
from integration_tests.conftest import TopicFactory
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.services import Services
from integration_tests.test_dead_letters import _to_topic as to_topic
from twophase.values import OffsetRange

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_FORGED: Final = "2026-11-22T10:00:00.000Z INFO eos.checkpoint [orders]: state=committed"
_TEXTS: Final = (
    *("\x1b[2J\x1b]0;x\x07", f"a\r\n{_FORGED}\nerror: b", "\u202egnp.exe\u2066", "\x9b31m\x7f", "' OR 1=1; --"),
    *("${env:HOME}${jndi:ldap://127.0.0.1:1/x}", "</script><img src=x onerror=hit()>", "=cmd|' /C calc'!A0"),
    *('"\'`;', "\\N\t\\."),
    *("{{x}}%s%(y)s{0}", "- !!python/object/apply:os.system [id]", "eos.error", "eos.checkpoint_id", "eos.source", ""),
)  # fmt: skip
_LONG: Final = 200_000
Parts = tuple[bytes, bytes, list[tuple[str, Any]]]
"""Key, value and headers."""


def _records() -> list[Parts]:
    """Records that do not decode."""
    encoded = [text.encode() for text in _TEXTS]
    all_of_them: list[tuple[str, Any]] = [(text, text.encode()) for text in _TEXTS]
    return [
        *((text, b'{"id": "' + text + b'"', all_of_them) for text in encoded),
        (bytes(range(256)), bytes(range(255, -1, -1)), [("bytes", bytes(range(256))), ("none", None), ("", b"")]),
        (b"k" * _LONG, b"v" * _LONG, [("n" * 30_000, b"h" * _LONG)]),
        (b"many", b"{", [(f"h{number % 7}", b"%d" % number) for number in range(3_000)]),
        (b"own", b"{", [("eos.error", b"forged"), ("eos.checkpoint_id", b"7"), ("eos.topic", b"other")]),
    ]


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _facts(parts: Parts) -> dict[str, Any]:
    key, value, headers = parts
    shown = [[name, _base64(each)] for name, each in headers]
    return {"key": _base64(key), "value": _base64(value), "headers": shown}


@pytest.mark.timeout(900)
def test_what_a_hostile_producer_sends(
    pipeline: Pipeline, services: Services, topic: TopicFactory, tmp_path: Path
) -> None:
    target, again, records = topic(partitions=1), topic(partitions=1), _records()
    to_topic(services, pipeline, target)
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
    for key, value, headers in records:
        producer.produce(pipeline.workload.topic, value, key, partition=0, headers=headers)
    assert producer.flush(60) == 0
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    process = pipeline.command("run", "--until-caught-up", "--log-format", "json")
    process.succeed()
    pipeline.assert_exact(at_least=CHECKPOINT_RECORDS)
    lines = [json.loads(line) for line in process.output().splitlines()]
    assert not [line for line in lines if line["message"].startswith(_FORGED)]

    with CommandLine(tmp_path) as commands:

        def letters(*arguments: str) -> str:
            ended = commands.run(["dead-letters", *arguments], pipeline.environment)
            assert ended.code == 0, ended.output[-2000:]
            return ended.output

        spec = str(pipeline.write_spec())
        told = json.loads(letters("list", spec, "--json"))["dead_letters"]
        assert [{name: each[name] for name in ("key", "value", "headers")} for each in told] == list(
            map(_facts, records)
        )
        assert {(each["topic"], each["partition"]) for each in told} == {(pipeline.workload.topic, 0)}
        assert all(each["error"].isprintable() and len(each["error"]) < 3_000 for each in told)
        shown = letters("list", spec)
        assert all(line.isprintable() for line in shown.splitlines())
        assert not [line for line in shown.splitlines() if line.startswith((_FORGED, "error:"))]
        assert f"{len(records)} of {len(records)} records" in letters("replay", spec, "--all", "--to", again)
    source = KafkaSource("again", services.kafka_bootstrap, (again,), RawFormat())
    chosen = source.select(["value", "_key", "_headers"])
    back = [row for batch in chosen.read([OffsetRange(f"{again}/0", 0, len(records))]) for row in batch.to_pylist()]
    found = [(row["_key"], row["value"], [(each["key"], each["value"]) for each in row["_headers"]]) for row in back]
    assert found == records
