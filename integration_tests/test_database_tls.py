"""TLS to real servers, as a sink and as the store of head: verified, and what does not hold told with its remedy."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy

from connectors.api.contracts import Sink
from connectors.sql.head import SqlHead
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.sink import PostgresSink
from eos.errors import HeadAccessError, TargetError
from integration_tests.services import Services
from integration_tests.services.containers import Containers
from integration_tests.services.databases_secured import CLIENT, Certificates, SecuredPostgres
from integration_tests.services.kafka_secured import SecuredKafka
from integration_tests.services.postgres_native import Postgres

_SCHEMA = pa.schema([("id", pa.int64())])
_MYSQL = {"ca": "ssl_ca", "certificate": "ssl_cert", "key": "ssl_key"}
_POSTGRES = {"ca": "sslrootcert", "certificate": "sslcert", "key": "sslkey"}


@dataclass
class Server:
    """One that speaks TLS, with a database of this test's own."""

    kind: str
    url: str  # at 127.0.0.1, of a user with a password
    admin_url: str
    certificates: Certificates
    any_host: str  # the option of a URL
    reload: tuple[str, ...]  # statements after another certificate has come
    options: dict[str, str] = field(default_factory=dict)
    takes_expired: bool = True  # or it does not load such a certificate itself

    def at(self, *options: str, host: str = "127.0.0.1", user: str | None = None, **files: Path) -> str:
        """The URL with these options."""
        given = [*options, *(f"{self.options[name]}={path}" for name, path in files.items())]
        url = self.url.replace("127.0.0.1", host)
        if user is not None:
            url = url.replace("eos:eos@", f"{user}@")
        return f"{url}?{'&'.join(given)}" if given else url

    def sink(self, url: str) -> Sink:
        """Into the table `t`."""
        return PostgresSink("out", url, "t") if self.kind == "postgresql" else MySqlSink("out", url, "t")

    def works(self, url: str) -> None:
        """As a sink, and as head; and the doctor says that it is encrypted."""
        self.sink(url).open(_SCHEMA)
        head = SqlHead(url, "orders")
        head.read()
        head.close()
        (encryption,) = (each for each in self.sink(url).check(None) if "encryption" in each.check)
        assert "TLS" in encryption.detail, encryption

    def fails(self, url: str, problem: str, remedy: str) -> None:
        """Once and for all."""
        with pytest.raises(TargetError) as failure:
            self.sink(url).open(_SCHEMA)
        assert problem in failure.value.message
        assert remedy in failure.value.remedy
        with pytest.raises(HeadAccessError) as refused:
            SqlHead(url, "orders").read()
        assert remedy in refused.value.remedy
        assert not refused.value.retriable

    def execute(self, *statements: str) -> None:
        """As an administrator."""
        engine = sqlalchemy.create_engine(self.admin_url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(sqlalchemy.text(statement))


def _mysql(url: str, admin_url: str, name: str, host: str, files: Certificates, reload: tuple[str, ...]) -> Server:
    made = Server("mysql", url + name, admin_url, files, "ssl_verify_identity=false", reload, _MYSQL)
    client = f"{CLIENT}@'{host}'"
    made.execute(
        *(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id BIGINT)", f"GRANT ALL ON {name}.* TO eos@'{host}'"),
        *(f"CREATE USER IF NOT EXISTS {client} REQUIRE X509", f"GRANT ALL ON {name}.* TO {client}"),
    )
    return made


@contextmanager
def _mysql_in_its_container(services: Services, folder: Path, name: str) -> Iterator[Server]:
    """With the certificates of this test for as long as it takes."""
    containers = services.control
    assert isinstance(containers, Containers)
    files = Certificates(folder)
    files.make(None)
    place = "/var/lib/mysql/eos-test"
    use = [f"SET GLOBAL ssl_{each} = '{place}-{each}.pem'" for each in ("ca", "cert", "key")]
    reload = (*use, "ALTER INSTANCE RELOAD TLS")
    made = _mysql(services.database_url, services.admin_database_url, name, "%", files, reload)

    def put() -> None:
        for each, file in (("ca", files.ca), ("cert", files.certificate), ("key", files.key)):
            containers.put("mysql", f"{place}-{each}.pem", file.read_bytes(), "mysql")

    put()
    made.takes_expired = False
    made.execute(*reload)
    yield made
    own = [f"SET GLOBAL ssl_{each} = '{file}.pem'" for each, file in _OF_MYSQL.items()]
    made.execute(*own, "ALTER INSTANCE RELOAD TLS")


_OF_MYSQL = {"ca": "ca", "cert": "server-cert", "key": "server-key"}
"""What a new server makes for itself."""


def _postgres(server: SecuredPostgres, name: str) -> Server:
    reload = ("SELECT pg_reload_conf()", "SELECT pg_sleep(0.5)")
    files = server.certificates
    made = Server("postgresql", server.url + name, server.admin_url, files, "sslmode=verify-ca", reload, _POSTGRES)
    made.execute(f"CREATE DATABASE {name} OWNER eos")
    made.admin_url = made.admin_url.removesuffix("postgres") + name
    made.execute(
        f"DO $$ BEGIN CREATE ROLE {CLIENT} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        "CREATE TABLE t (id BIGINT)",
        "GRANT INSERT ON t TO eos",
        "GRANT ALL ON SCHEMA public TO eos",
        f"GRANT eos TO {CLIENT}",
    )
    return made


_KINDS = [
    pytest.param("mariadb", marks=pytest.mark.any_server),
    pytest.param("postgresql", marks=pytest.mark.any_server),
    pytest.param("mysql", marks=pytest.mark.only_on("MySQL", "MariaDB with TLS is a server of its own")),
]


@pytest.fixture(params=_KINDS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    name = f"eos_{secrets.token_hex(4)}"
    if request.param == "mysql":
        with _mysql_in_its_container(request.getfixturevalue("services"), tmp_path / "certificates", name) as made:
            yield made
    elif request.param == "mariadb":
        found = request.getfixturevalue("secured_mariadb")
        yield _mysql(found.url(), found.url(admin=True), name, "127.0.0.1", found.certificates, ("FLUSH SSL",))
    else:
        yield _postgres(request.getfixturevalue("secured_postgres"), name)


@pytest.mark.xdist_group("database-tls")  # the certificate of a server is of all tests
def test_a_server_is_verified_and_so_is_the_client(server: Server) -> None:
    files = server.certificates
    server.works(server.at(ca=files.ca))
    server.works(server.at(server.any_host, host="localhost", ca=files.ca))
    server.works(server.at(user=CLIENT, ca=files.ca, certificate=files.client, key=files.client_key))
    server.fails(server.at(ca=files.foreign_ca), "verif", "authority of the server's certificate")
    server.fails(server.at(ca=files.ca, host="localhost"), "localhost", "name the server in the url")
    server.fails(server.at(user=CLIENT, ca=files.ca), "certificate" if server.kind == "postgresql" else "denied", "")
    wrong = sqlalchemy.make_url(server.at(ca=files.ca)).set(password="wrong").render_as_string(hide_password=False)
    server.fails(wrong, "authentication failed" if server.kind == "postgresql" else "denied", "password")
    if server.takes_expired:
        files.use(expired=True)
        try:
            server.execute(*server.reload)
            server.fails(server.at(ca=files.ca), "verif", "renewed")
        finally:
            files.use(expired=False)
            server.execute(*server.reload)
        server.works(server.at(ca=files.ca))


def test_a_server_without_tls_is_not_spoken_to_in_plain_text(
    services: Services, postgres: Postgres, database: str, secured_kafka: SecuredKafka
) -> None:
    """Somebody between may say that it has none."""
    own = [("postgresql", f"{postgres.url}postgres?sslrootcert={secured_kafka.ca}", "does not support SSL")]
    if services.database.name == "MariaDB":
        own.append(("mysql", f"{database}?ssl=true", "SSL is required"))
    for kind, url, problem in own:
        server = Server(kind, url, url, Certificates(Path("/")), "", ())
        server.fails(url, problem, "switch TLS on")
