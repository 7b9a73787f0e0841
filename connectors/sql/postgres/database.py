"""PostgreSQL as a kind of database: the TLS that a URL asks for, and head. Imports no driver."""

from __future__ import annotations

from typing import ClassVar, Final

from connectors.api.database import Database
from connectors.api.tls import Protection, Query, stays

FILES: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
"""Options of a URL that name a file, as libpq calls them."""


class PostgresDatabase(Database):
    """PostgreSQL, for `checkpoint.head`."""

    api_version: ClassVar[int] = 1
    port: ClassVar[int] = 5432
    verified_by: ClassVar[str] = "sslrootcert"

    @classmethod
    def protection(cls, host: str | None, query: Query) -> Protection:
        """Return the protection: as `sslmode` says; without it verified, unless the server is on this machine."""
        modes = {"verify-full": Protection.FULL, "verify-ca": Protection.ANY_HOST, "require": Protection.UNVERIFIED}
        if "sslmode" in query:
            return modes.get(str(query["sslmode"]), Protection.NONE)
        asked = any(name in query for name in FILES)
        return Protection.FULL if asked or not stays(host, query) else Protection.LOCAL

    @classmethod
    def kind(cls) -> object:
        from connectors.sql.postgres.kind import KIND  # loads the driver

        return KIND
