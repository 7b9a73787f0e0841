"""A secret in each place where a spec can take one, on real servers: no process, page or file of the run shows it."""

from __future__ import annotations

import json
import secrets
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from integration_tests import topics
from integration_tests.cluster.standalone import free_ports
from integration_tests.conftest import TopicFactory
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.harness.planted import Planted
from integration_tests.services import Services
from integration_tests.services.aws_identities import REGION, Identity
from integration_tests.services.kafka_secured import SecuredKafka
from tests.object_store import KEYS, Bucket
from tests.page_http import client_of

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns, pytest.mark.xdist_group("aws-identities")]

_RECORDS = 2 * CHECKPOINT_RECORDS
_VISIBLE_S = 300.0
_SECONDS = 30
_PLACES = (
    "variable",
    "file",
    "URL",
    "security",
    "properties",
    "log option",
    "spark.conf",
    "reference in spark.conf",
    "AWS key",
)
_GIVEN = ("SINK_URL", "STORE_SECRET", "PLANTED")
"""Variables by which the user gives secrets to the driver, and `spark.executorEnv` to tasks."""
_ANSWERS = ("", "/checkpoints", "/checkpoints/0", "/sinks", "/transactions", "/failures", "/spec", "/runs")


def _add_database_user(services: Services, database: str, password: str) -> str:
    """Create a user with all rights in a database; returns its name."""
    name = f"u{secrets.token_hex(5)}"
    engine = sqlalchemy.create_engine(
        services.admin_database_url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE USER {name} IDENTIFIED BY '{password}'")
        connection.exec_driver_sql(f"GRANT ALL ON `{database}`.* TO {name}")
    return name


def _add_kafka_user(broker: SecuredKafka, topic: str, password: str) -> str:
    """Create a user who may read topics whose names begin so; returns its name."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    for future in admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(topic, info, password.encode())]
    ).values():
        future.result(_SECONDS)
    rights = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.PREFIXED,
            f"User:{topic}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in (AclOperation.DESCRIBE, AclOperation.READ)
    ]
    for made in admin.create_acls(rights).values():
        made.result(_SECONDS)
    return topic


@pytest.fixture
def planted() -> dict[str, str]:
    """By place: a secret that is nowhere else."""
    return {place: f"planted-{number}-{secrets.token_hex(8)}" for number, place in enumerate(_PLACES)}


@pytest.fixture
def run(
    services: Services,
    secured_kafka: SecuredKafka,
    database: str,
    bucket: Bucket,
    topic: TopicFactory,
    tmp_path: Path,
    planted: dict[str, str],
    _first_run: None,
) -> Iterator[Pipeline]:
    name = f"planted-{secrets.token_hex(4)}"
    for each in (name, f"{name}-aws"):
        topics.create(secured_kafka.bootstrap, each, PARTITIONS, {})
    folder = tmp_path / "pipeline"
    folder.mkdir()
    url = sqlalchemy.make_url(database)

    def of(place: str, written: str) -> str:
        user = _add_database_user(services, url.database or "", planted[place])
        shown = url.set(username=user, password="PASSWORD").render_as_string(hide_password=False)
        return shown.replace("PASSWORD", written)

    with Pipeline(folder, secured_kafka.bootstrap, name, database) as made:
        made.table.create()
        made.environment |= {
            "SINK_URL": of("variable", planted["variable"]),
            "STORE_SECRET": planted["log option"],
            "PLANTED": planted["reference in spark.conf"],
        }
        (tmp_path / "secret").write_text(planted["file"])
        spec: dict[str, Any] = made.spec
        user = _add_kafka_user(secured_kafka, name, planted["security"])
        made.source.update(
            {
                "bootstrap_servers": secured_kafka.listener("TLS"),
                "security": {
                    "tls": {"ca": str(secured_kafka.ca)},
                    "sasl": {"username": user, "password": planted["security"]},
                },
                "on_bad_record": "dead-letter",
            }
        )
        spec["checkpoint"] |= {
            "log": str(bucket.address()),
            "log_options": {
                "endpoint": f"http://127.0.0.1:{bucket.port}",
                "allow_http": True,
                "region": "us-east-1",
                "access_key_id": KEYS["access_key_id"],
                "secret_access_key": "${env:STORE_SECRET}",
            },
        }
        other = {**made.source, "name": "other", "topics": [topic(partitions=1)]}
        del other["security"]
        properties = {"sasl.password": planted["properties"], "ssl.key.password": planted["properties"]}
        spec["sources"].append({**other, "bootstrap_servers": services.kafka_bootstrap, "properties": properties})
        identity = secured_kafka.identities.add(Identity(user, secret=planted["AWS key"]))
        sasl = {"mechanism": "AWS_MSK_IAM", "region": REGION, "access_key_id": identity.key}
        by_key = {"tls": {"ca": str(secured_kafka.ca)}, "sasl": {**sasl, "secret_access_key": identity.secret}}
        third = {**made.source, "name": "third", "topics": [f"{name}-aws"], "security": by_key}
        spec["sources"].append({**third, "bootstrap_servers": secured_kafka.listener("AWS")})
        columns = "SELECT id, word, payload FROM"
        unions = " UNION ALL ".join(f"{columns} {view}" for view in ("incoming", "other", "third"))
        spec["transforms"] = [{"name": "rows", "sql": unions}]
        (sink,) = spec["sinks"]
        sink["commit"] = "write-ahead-log"
        copy = {**sink, "name": "copy", "table": "copies", "create": "if-missing"}
        spec["sinks"].append({**copy, "url": of("file", f"${{file:{tmp_path / 'secret'}}}")})
        letters = {"connector": "mysql", "url": of("URL", planted["URL"]), "table": "letters", "create": "if-missing"}
        spec["dead_letter"] = {**letters, "commit": "write-ahead-log"}
        yield made
    topics.delete(secured_kafka.bootstrap, [name, f"{name}-aws"])
    secured_kafka.identities.clear()


@pytest.mark.timeout(900)
def test_no_planted_secret_is_found(run: Pipeline, planted: dict[str, str], tmp_path: Path) -> None:
    (port,) = free_ports(1)
    events = tmp_path / "events"
    events.mkdir()
    run.spec["spark"] = {
        "master": "local[2]",
        "conf": {
            "spark.ui.enabled": "true",
            "spark.ui.port": str(port),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.hadoop.fs.s3a.secret.key": planted["spark.conf"],
            "spark.executorEnv.PLANTED": "${env:PLANTED}",
        },
    }
    look = Planted(planted)
    assert look.look("the spec and what it names", f"{run.write_spec().read_text()}{run.environment}{planted['file']}")
    assert look.found == {f"{place} in the spec and what it names" for place in _PLACES}, "the search sees each"
    look.found.clear()

    run.workload.produce(_RECORDS)
    run.workload.produce_bad("no record")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="p-") as scratch:  # short, for the sockets in it
        run.environment["TMPDIR"] = scratch
        process = run.command("run", "--ui", "--ui-port", "0")
        deadline = time.monotonic() + _VISIBLE_S
        while not (run.verdict().in_sink >= _RECORDS and run.table.execute("SHOW TABLES LIKE 'letters'")):
            assert time.monotonic() < deadline, process.output()
            look.look_at_arguments(process.pid)
            time.sleep(0.05)
        look.look_at_arguments(process.pid)
        assert look.look_at_environments(process.pid, _GIVEN) >= 4, "the driver, its JVM, a daemon and its workers"
        look.look_at_files(Path(scratch), ())
        assert any(Path(scratch).rglob("blockmgr-*")), "Spark's scratch is there"

        spark = f"http://127.0.0.1:{port}"
        (application,) = json.loads(look.look_at_pages(f"{spark}/api/v1/applications")[f"{spark}/api/v1/applications"])
        api = f"{spark}/api/v1/applications/{application['id']}"
        names = ("environment", "jobs", "stages", "allexecutors", "sql?details=true", "executors/driver/threads")
        pages = look.look_at_pages(f"{spark}/", f"{spark}/environment/", *(f"{api}/{name}" for name in names))
        assert len(pages) >= 15, list(pages)
        for name in ("spark.hadoop.fs.s3a.secret.key", "spark.executorEnv.PLANTED"):
            assert name in pages[f"{api}/environment"], "which its page shows"

        client = client_of(process.output())
        of_one = f"/api/v1/pipelines/{run.workload.topic}"
        for path in ("/", "/metrics", "/api/v1/pipelines", *(f"{of_one}{part}" for part in _ANSWERS)):
            answer = client.get(path)
            assert answer.status == 200, (path, answer.body)
            look.look(f"the answer {path}", answer.body)

        for command in ("validate", "status", "transactions"):
            run.command(command, "--json").wait()
        run.command("stop", "--savepoint", str(tmp_path / "kept")).succeed()
        process.succeed()
    look.look_at_files(tmp_path, {run.write_spec(), tmp_path / "secret"})
    for place in (events, tmp_path / "kept", run.location):
        assert look.look_at_files(place, ()) >= 1, place
    assert (run.location / "history.sqlite").stat().st_size > 0
    assert look.found == set()
    assert run.table.execute("SELECT COUNT(*) FROM letters") == [(1,)]
    assert run.table.execute("SELECT COUNT(*) FROM copies") == [(_RECORDS,)]
    run.assert_exact(at_least=_RECORDS)
