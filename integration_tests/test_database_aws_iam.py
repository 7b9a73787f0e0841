"""Logins to a database by tokens of AWS IAM, at a PostgreSQL server that verifies each of them, as Amazon RDS does."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy

from connectors.aws import forget_sessions
from connectors.sql.postgres.sink import PostgresSink
from eos.errors import TargetError
from integration_tests.conftest import TopicFactory
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, TABLE
from integration_tests.services import Services
from integration_tests.services.aws_identities import REGION, Identity, Program
from integration_tests.services.databases_secured import SecuredPostgres
from integration_tests.services.ldap import Directory
from integration_tests.services.rds_tokens import why_refused
from integration_tests.test_postgres_pipeline import PostgresPipeline

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 4 * CHECKPOINT_RECORDS


@dataclass
class Iam:
    """A role of the server that logs in by tokens alone, and its database."""

    role: str
    url: str  # as the spec has it
    own_url: str  # of the same database, for the tests' own hands
    directory: Directory


@pytest.fixture
def identity() -> Identity:
    return Identity("orders")


@pytest.fixture
def program(identity: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    return Program(tmp_path / "program", identity, 3600).install(monkeypatch)


def _administer(server: SecuredPostgres, *statements: str) -> None:
    engine = sqlalchemy.create_engine(server.admin_url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


@pytest.fixture
def iam(secured_postgres: SecuredPostgres, identity: Identity) -> Iterator[Iam]:
    role = f"iam_{secrets.token_hex(4)}"
    own = sqlalchemy.make_url(secured_postgres.admin_url)
    server = f"127.0.0.1:{own.port}"
    rules = secured_postgres.data / "pg_hba.conf"
    before = rules.read_text()
    known = {identity.key: identity}
    with Directory(lambda user, token: why_refused(token, user, server, REGION, known)) as directory:
        at = f'ldapserver=127.0.0.1 ldapport={directory.port} ldapprefix="cn="'
        rules.write_text(f"hostssl all {role} all ldap {at}\n{before}")
        made = (f"CREATE ROLE {role} LOGIN", f"CREATE DATABASE {role} OWNER {role}", "SELECT pg_reload_conf()")
        _administer(secured_postgres, *made)
        options = f"login=aws-iam&aws_region={REGION}&sslrootcert={secured_postgres.certificates.ca}"
        url = f"postgresql+psycopg://{role}@{server}/{role}?{options}"
        own_url = own.set(database=role).render_as_string(hide_password=False)
        yield Iam(role, url, own_url, directory)
    rules.write_text(before)
    gone = (f"DROP DATABASE {role} WITH (FORCE)", f"DROP ROLE {role}", "SELECT pg_reload_conf()")
    _administer(secured_postgres, *gone)


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("_first_run")
def test_a_pipeline_whose_database_takes_tokens_alone(
    services: Services, topic: TopicFactory, iam: Iam, program: Program, identity: Identity, tmp_path: Path
) -> None:
    """As sink, head and dead letters, on the driver and in Spark's tasks."""
    folder = tmp_path / "pipeline"
    folder.mkdir()
    name = topic(partitions=PARTITIONS)
    with PostgresPipeline(folder, services.kafka_bootstrap, name, iam.own_url) as pipeline:
        pipeline.shown.create()
        pipeline.shown.execute(f'ALTER TABLE "{TABLE}" OWNER TO {iam.role}')
        pipeline.environment |= {"SINK_URL": iam.url, **program.environment}
        letters = {"connector": "postgresql", "url": iam.url, "table": "letters", "create": "if-missing"}
        pipeline.spec["dead_letter"] = {**letters, "commit": "two-phase"}
        pipeline.source["on_bad_record"] = "dead-letter"
        pipeline.spec["checkpoint"]["head"] = iam.url
        with CommandLine(tmp_path) as commands:
            ended = commands.run(["doctor", str(pipeline.write_spec())], pipeline.environment)
        assert ended.code == 0, ended.output
        pipeline.workload.produce(_RECORDS)
        pipeline.workload.produce_bad("no JSON")
        process = pipeline.catch_up()
        verdict = pipeline.verdict()
        assert verdict.exact, str(verdict)
        assert verdict.in_sink == _RECORDS
        assert pipeline.shown.execute("SELECT COUNT(*) FROM letters") == [(1,)]
        assert pipeline.shown.execute("SELECT COUNT(*) FROM eos_head") == [(1,)]
        assert iam.directory.refused == []
        assert len(iam.directory.passwords) > 10
        shown = re.compile(rf"X-Amz-Signature|{identity.secret}")
        kept = [path.read_text(errors="replace") for path in pipeline.location.rglob("*") if path.is_file()]
        assert not [text for text in [process.output(), ended.output, *kept] if shown.search(text)]


def test_a_token_that_the_server_refuses(iam: Iam, program: Program, identity: Identity) -> None:
    PostgresSink("out", iam.url, "t").check(None)
    assert iam.directory.refused == []
    assert iam.directory.passwords
    program.use(Identity("another"))
    forget_sessions()
    with pytest.raises(TargetError, match="authentication failed") as failure:
        PostgresSink("out", iam.url, "t").open(pa.schema([("id", pa.int64())]))
    assert "nobody has the key" in iam.directory.refused[0]
    assert "X-Amz" not in str(failure.value)
