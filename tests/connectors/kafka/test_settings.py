"""What of Kafka's configuration can be judged without a broker."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest

from connectors.aws import AwsIdentity
from connectors.formats.ddl import parse_ddl
from connectors.formats.json_values import JsonFormat
from connectors.formats.plain import RawFormat
from connectors.kafka.settings import REFUSED, Connection
from connectors.kafka.sink.layout import Layout
from connectors.kafka.sink.markers import PARTITIONS, partition_of_marker
from connectors.kafka.sink.place import Names, Place
from connectors.kafka.sink.sink import KafkaSink
from connectors.kafka.source import KafkaSource
from connectors.kafka.splits import parse_split, split_name
from connectors.log.place import LogPlace
from eos.errors import SpecError

SECRET = "s3cret-value"


def source(**settings: object) -> KafkaSource:
    return KafkaSource("in", "h:1", ("t",), **{"format": RawFormat(), **settings})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*REFUSED, "error_cb", "stats_cb", "on_commit", "logger"])
def test_settings_that_are_not_the_users(name: str) -> None:
    with pytest.raises(SpecError, match=f"properties: {name} ") as refused:
        source(properties={name: SECRET})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "name",
    [
        *("stats_cb", "oauth_cb", "default.topic.config", "logger", "ssl.engine.location", "ssl.providers"),
        *("plugin.library.paths", "sasl.kerberos.kinit.cmd"),
    ],
)
def test_settings_of_a_sink_that_take_code(name: str) -> None:
    with pytest.raises(SpecError, match=f"properties: {name} takes code"):
        KafkaSink("s", "h:1", Layout("t"), LogPlace(Path("log"), slots=1), properties={name: SECRET})


@pytest.mark.parametrize("url", ["http://id.example.com/token", "file:///etc/passwd", "https:///token", "//[", "x"])
def test_a_token_is_not_fetched_in_plain_text(url: str) -> None:
    with pytest.raises(SpecError, match=r"properties: sasl\.oauthbearer\.token\.endpoint\.url: "):
        source(properties={"sasl.oauthbearer.token.endpoint.url": url})
    source(properties={"sasl.oauthbearer.token.endpoint.url": "https://id.example.com/token"})


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("no.such.setting", "1", 'No such configuration property: "no.such.setting"'),
        ("fetch.wait.max.ms", "soon", 'Invalid value for configuration property "fetch.wait.max.ms"'),
        ("fetch.wait.max.ms", "-5", '"fetch.wait.max.ms" value -5 is outside allowed range'),
        ("security.protocol", "SSL2", 'for configuration property "security.protocol"'),
        ("ssl.key.pem", SECRET, "ssl.key.pem failed"),
    ],
)
def test_the_client_judges_the_others(name: str, value: str, complaint: str) -> None:
    with pytest.raises(SpecError) as refused:
        source(properties={"security.protocol": "SSL", name: value}).validate()
    assert complaint in refused.value.message
    assert SECRET not in str(refused.value)


def test_settings_pass_through() -> None:
    made = source(properties={"fetch.wait.max.ms": "77", "client.id": "me"}, group_id="g")
    made.validate()
    settings = made.connection.consumer()
    assert (settings["fetch.wait.max.ms"], settings["client.id"], settings["group.id"]) == ("77", "me", "g")
    assert (settings["enable.auto.commit"], settings["auto.offset.reset"]) == (False, "error")
    assert settings["isolation.level"] == "read_committed"


def test_no_repr_shows_a_property() -> None:
    made = source(properties={"sasl.password": SECRET, "ssl.key.password": SECRET})
    assert SECRET not in repr(made) + str(made) + repr(made.connection)
    assert made.connection.hide(f"x {SECRET} y") == "x *** y"


def test_a_login_by_aws_iam_among_properties() -> None:
    login = f"aws_msk_iam region=eu-west-1 key=AKIA1 secret={SECRET}"
    made = source(properties={"security.protocol": "SASL_SSL", "sasl.oauthbearer.config": login})
    assert made.connection.aws == AwsIdentity("eu-west-1", None, "AKIA1", SECRET)
    assert SECRET not in repr(made) + repr(made.connection) + repr(made.connection.aws)
    assert made.connection.hide(f"x {SECRET} y") == "x *** y"
    for wrong in ("aws_msk_iam", f"aws_msk_iam region=r secret={SECRET}", f"aws_msk_iam region=r password={SECRET}"):
        with pytest.raises(SpecError) as failure:
            source(properties={"security.protocol": "SASL_SSL", "sasl.oauthbearer.config": wrong})
        assert SECRET not in str(failure.value)
    with pytest.raises(SpecError, match="would be sent in plain text"):
        source(properties={"sasl.oauthbearer.config": login})
    assert source(properties={"sasl.oauthbearer.config": "principal=admin"}).connection.aws is None


def test_every_client_is_made_by_one_door() -> None:
    """Which gives it its login."""
    root = Path(__file__).parents[3]
    kinds = {"Consumer", "Producer", "AdminClient"}
    found = set()
    for path in (each for folder in ("connectors", "spark_jobs") for each in (root / folder).rglob("*.py")):
        calls = [each.func for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Call)]
        if any((each.id if isinstance(each, ast.Name) else getattr(each, "attr", "")) in kinds for each in calls):
            found.add(path.relative_to(root).as_posix())
    demo = {"spark_jobs/demo/broker.py", "spark_jobs/demo/feed.py"}  # its own broker has no login
    assert found == {"connectors/kafka/client.py", *demo}, "where settings are judged, without a login"
    assert "new_handle(" in (root / "connectors/kafka/sink/producer.py").read_text()


def test_a_source_travels_to_a_task() -> None:
    made = source(properties={"sasl.password": SECRET}).select(["value"])
    assert pickle.loads(pickle.dumps(made)) == made


def test_columns() -> None:
    made = source(format=JsonFormat(parse_ddl("a INT, b STRING")))
    assert made.schema.names == ["a", "b", "_key", "_topic", "_partition", "_offset", "_timestamp", "_headers"]
    assert made.select(["_offset", "b"]).schema.names == ["b", "_offset"]
    assert made.select(["b", "_offset"]).select(["_offset"]).schema.names == ["_offset"]
    with pytest.raises(SpecError, match="no such column: c"):
        made.select(["a", "c"])
    with pytest.raises(SpecError, match="_key is a column of record metadata"):
        source(format=JsonFormat(parse_ddl("_key INT")))


def test_splits() -> None:
    assert parse_split(split_name("a.b-c_1", 12)) == ("a.b-c_1", 12)


def test_what_the_users_properties_cannot_take_from_a_producer() -> None:
    """The spec refuses them by name; whoever builds a sink in code is overruled."""
    wrong = {
        "enable.idempotence": "false",
        "transactional.id": "another",
        "transaction.timeout.ms": "5",
        "delivery.timeout.ms": "5",
        "message.max.bytes": "1000",
        "delivery.report.only.error": "false",
        "allow.auto.create.topics": "true",
        "partitioner": "random",
        "bootstrap.servers": "elsewhere:1",
    }
    place = Place(Connection("h:1", "g", properties=tuple(wrong.items())), "t", transaction_timeout_s=30.0)
    settings = place.transactional("eos.p.s.0", 50_000)
    assert {name: settings[name] for name in wrong} == {
        "enable.idempotence": True,
        "transactional.id": "eos.p.s.0",
        "transaction.timeout.ms": 30_000,
        "delivery.timeout.ms": 30_000,
        "message.max.bytes": 1_000_000_000,
        "delivery.report.only.error": True,
        "allow.auto.create.topics": False,
        "partitioner": "murmur2_random",
        "bootstrap.servers": "h:1",
    }
    assert place.transactional("x", 1)["socket.timeout.ms"] == 7_500, "so that a transaction outlives a dead connection"


def test_what_the_users_properties_cannot_take_from_a_consumer() -> None:
    wrong = {
        "isolation.level": "read_uncommitted",
        "enable.auto.commit": "true",
        "enable.auto.offset.store": "true",
        "enable.partition.eof": "false",
        "auto.offset.reset": "latest",
        "allow.auto.create.topics": "true",
    }
    settings = Connection("h:1", "g", properties=tuple(wrong.items())).consumer()
    assert [settings[name] for name in wrong] == ["read_committed", False, False, True, "error", False]


def test_a_transactional_id_is_the_same_in_every_life_and_a_marker_is_not() -> None:
    """A new life ends the transaction of the one before (H28), and counts by itself."""
    names = Names("p", "s")
    assert (names.slot(1), names.claim) == ("eos.p.s.1", "eos.p.s.claim")
    assert names.marker("a" * 20, 1) != names.marker("b" * 20, 1)
    assert len({names.slot(0), names.slot(1), names.claim, Names("q", "s").slot(0), Names("p", "t").slot(0)}) == 5


def test_a_key_stays_in_its_partition_for_good() -> None:
    """What an earlier version wrote is looked for there. Claims are alone."""
    keys = [f"eos.p.s.{'a' * 20}.{slot}" for slot in range(64)]
    found = [partition_of_marker(key) for key in keys]
    assert found[:8] == [7, 6, 6, 7, 5, 1, 6, 7]
    assert {*found} == set(range(1, PARTITIONS))
