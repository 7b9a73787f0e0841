"""What `kafka-acls`, `kafka-configs` and `kafka-topics` do in the docs' commands, for machines without them.

Takes the options that the docs use, and no others. The cluster is the one at `--bootstrap-server`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from integration_tests import topics

_SECONDS = 30
_SCRAM = re.compile(r"(SCRAM-SHA-\d+)=\[(?:iterations=(\d+),)?password=(.+)\]")


def install(folder: Path) -> None:
    """Put a script for each into a folder, for PATH."""
    folder.mkdir(exist_ok=True)
    for name in _COMMANDS:
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {__name__} {name} "$@"\n')
        path.chmod(0o755)


def _acls(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("kafka-acls")
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--allow-principal", required=True)
    parser.add_argument("--operation", action="append", required=True)
    parser.add_argument("--resource-pattern-type", choices=("literal", "prefixed"), default="literal")
    parser.add_argument("--topic", action="append", default=[])
    parser.add_argument("--group", action="append", default=[])
    parser.add_argument("--transactional-id", action="append", default=[])
    parser.add_argument("--cluster", action="store_true")
    given = parser.parse_args(arguments)
    bindings = list(_bindings(given))
    assert bindings, "no resource is named"
    client = AdminClient({"bootstrap.servers": given.bootstrap_server})
    for future in client.create_acls(bindings).values():
        future.result(_SECONDS)


def grant(bootstrap: str, principal: str, prefix: str) -> None:
    """Allow everything with topics, groups and transactions whose names begin so; `eos.` and `eos-` as well."""
    shared = ["--bootstrap-server", bootstrap, "--add", "--allow-principal", principal, "--operation", "All"]
    for name in (prefix, "eos"):
        names = [part for kind in ("--topic", "--group", "--transactional-id") for part in (kind, name)]
        _acls([*shared, *names, "--resource-pattern-type", "prefixed"])


def grant_settings(bootstrap: str, principal: str) -> None:
    """Allow to see the brokers' settings, as a sink does."""
    shared = ["--bootstrap-server", bootstrap, "--add", "--allow-principal", principal]
    _acls([*shared, "--operation", "DescribeConfigs", "--cluster"])


def _bindings(given: argparse.Namespace) -> Iterator[AclBinding]:
    pattern = ResourcePatternType[given.resource_pattern_type.upper()]
    named = [
        *((ResourceType.TOPIC, name, pattern) for name in given.topic),
        *((ResourceType.GROUP, name, pattern) for name in given.group),
        *((ResourceType.TRANSACTIONAL_ID, name, pattern) for name in given.transactional_id),
        *([(ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL)] if given.cluster else []),
    ]
    for kind, name, how in named:
        for operation in given.operation:
            allowed = AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()]
            yield AclBinding(kind, name, how, given.allow_principal, "*", allowed, AclPermissionType.ALLOW)


def _configs(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("kafka-configs")
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--alter", action="store_true", required=True)
    parser.add_argument("--entity-type", choices=("users",), required=True)
    parser.add_argument("--entity-name", required=True)
    parser.add_argument("--add-config", required=True)
    given = parser.parse_args(arguments)
    found = _SCRAM.fullmatch(given.add_config)
    assert found is not None, given.add_config
    info = ScramCredentialInfo(ScramMechanism[found[1].replace("-", "_")], int(found[2] or 4096))
    client = AdminClient({"bootstrap.servers": given.bootstrap_server})
    wanted = UserScramCredentialUpsertion(given.entity_name, info, found[3].encode())
    for future in client.alter_user_scram_credentials([wanted]).values():
        future.result(_SECONDS)


def _topics(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("kafka-topics")
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--create", action="store_true", required=True)
    parser.add_argument("--if-not-exists", action="store_true")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--config", action="append", default=[])
    given = parser.parse_args(arguments)
    settings = dict(each.split("=", 1) for each in given.config)
    there = AdminClient({"bootstrap.servers": given.bootstrap_server}).list_topics(timeout=_SECONDS).topics
    if given.if_not_exists and given.topic in there:
        return
    topics.create(given.bootstrap_server, given.topic, given.partitions, settings)


_COMMANDS = {"kafka-acls": _acls, "kafka-configs": _configs, "kafka-topics": _topics}


if __name__ == "__main__":
    _COMMANDS[sys.argv[1]](sys.argv[2:])
