"""What a URL of PostgreSQL says, and what nobody may see of it."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Final

from sqlalchemy import URL
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from connectors.api.login import OPTIONS
from connectors.api.tls import Protection
from connectors.sql import silence
from connectors.sql.kind import place_of
from connectors.sql.postgres.database import PostgresDatabase
from eos.errors import SpecError

_FORM: Final = "postgresql+psycopg://user:password@host:5432/database"
_CONNECT_TIMEOUT_S: Final = 10
_FILES: Final = (
    ("passfile", "PGPASSFILE", "~/.pgpass"),
    ("sslrootcert", "PGSSLROOTCERT", "~/.postgresql/root.crt"),
    ("sslcert", "PGSSLCERT", "~/.postgresql/postgresql.crt"),
    ("sslkey", "PGSSLKEY", "~/.postgresql/postgresql.key"),
    ("servicefile", "PGSERVICEFILE", "~/.pg_service.conf"),
)
"""Option, variable and usual place of each file that libpq reads for a login."""
_REQUIRE_AUTH: Final = "require_auth"
_NO_PASSWORD: Final = "!password"


def parse(url: str) -> URL:
    """The parts of a URL. Raises SpecError without repeating it: it holds a password."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        message = f"the url is not of the form {_FORM}"
        raise SpecError(message, remedy="write special characters of the password as %xx") from None
    if parsed.get_backend_name() != "postgresql":
        message = f"the url begins with {parsed.drivername!r}, which is not PostgreSQL"
        raise SpecError(message, remedy="begin it with postgresql+psycopg://")
    return parsed.set(drivername="postgresql+psycopg")


def masked(url: str) -> str:
    """The URL for messages: user, password and options left out."""
    parsed = parse(url)
    return place_of(parsed.host or "localhost", parsed.port or PostgresDatabase.port, parsed.database)


def protection(url: str) -> Protection:
    """How the way to the server is protected."""
    parsed = parse(url)
    return PostgresDatabase.protection(parsed.host, {**_of_environment(parsed), **parsed.query})


def login_files(url: str) -> list[str]:
    """Return the files of keys, certificates and passwords that libpq may read for the URL. Not all of them exist."""
    query = parse(url).query
    given = [query.get(option) or os.environ.get(variable) or usual for option, variable, usual in _FILES]
    return [str(Path(str(name)).expanduser()) for name in given]


def _of_environment(url: URL) -> dict[str, str]:
    """Return the server that libpq's variables name where the URL leaves it open."""
    names = {"hostaddr": "PGHOSTADDR", "service": "PGSERVICE", **({} if url.host else {"host": "PGHOST"})}
    return {name: os.environ[variable] for name, variable in names.items() if os.environ.get(variable)}


def connect_arguments(url: str) -> tuple[URL, dict[str, object]]:
    """What SQLAlchemy is given for a URL of ours: libpq's own options stay in it (`sslmode`, `sslrootcert`)."""
    arguments: dict[str, object] = {
        "autocommit": True,
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "tcp_user_timeout": silence.NOTICED_S * 1000,
        "keepalives_idle": silence.IDLE_S,
        "keepalives_interval": silence.ASK_EVERY_S,
        "keepalives_count": silence.ASK_TIMES,
        **_tls(url),
        **_authentication(url),
    }
    return parse(url).difference_update_query(OPTIONS), arguments


def _tls(url: str) -> dict[str, object]:
    """Verified, host name included, unless the URL says otherwise. libpq by itself would take what it gets."""
    if protection(url) is not Protection.FULL:
        return {}
    query = parse(url).query
    authorities = {} if "sslrootcert" in query else {"sslrootcert": _authorities()}
    return {**({} if "sslmode" in query else {"sslmode": "verify-full"}), **authorities}


def _authentication(url: str) -> dict[str, object]:
    """Return the logins that libpq accepts: never the password itself, unless the server's certificate is verified.

    The server chooses the login, and a process that has taken its port could ask for the password in clear text.
    Raises SpecError where the URL allows it in so many words.
    """
    if protection(url) in (Protection.FULL, Protection.ANY_HOST):
        return {}
    said = parse(url).query.get(_REQUIRE_AUTH) or os.environ.get("PGREQUIREAUTH") or _NO_PASSWORD
    methods = str(said).replace(" ", "").split(",")
    if "password" in methods or (methods[0].startswith("!") and _NO_PASSWORD not in methods):
        message = f"require_auth={said} lets the server at {masked(url)} ask for the password in clear text, and its"
        message += " certificate is not verified"
        raise SpecError(message, remedy="give sslrootcert in the url, or omit require_auth (docs/how-to/security.md)")
    return {_REQUIRE_AUTH: str(said)}


def _authorities() -> str:
    """Of this machine, where Python finds them: the libpq that comes with the driver looks elsewhere."""
    return os.environ.get("PGSSLROOTCERT") or ssl.get_default_verify_paths().cafile or "system"
