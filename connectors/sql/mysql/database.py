"""MySQL and MariaDB as a kind of database: the TLS that a URL asks for, and head. Imports no driver."""

from __future__ import annotations

from typing import ClassVar, Final

from connectors.api.database import Database
from connectors.api.tls import Protection, Query, is_on, stays

FILES: Final = ("ssl_ca", "ssl_capath", "ssl_cert", "ssl_key")
"""Options of a URL that name a file, which is read wherever the client runs."""


class MySqlDatabase(Database):
    """MySQL and MariaDB, for `checkpoint.head`."""

    api_version: ClassVar[int] = 1
    port: ClassVar[int] = 3306
    verified_by: ClassVar[str] = "ssl_ca"

    @classmethod
    def protection(cls, host: str | None, query: Query) -> Protection:
        """Return the protection: verified, host name included, unless an option of the URL says otherwise."""
        wanted = is_on(query, "ssl", default=not stays(host, query))
        if is_on(query, "ssl_disabled", default=False):
            return Protection.NONE
        if not wanted and not any(name in query for name in FILES):
            return Protection.NONE if "ssl" in query else Protection.LOCAL
        if not is_on(query, "ssl_verify_cert", default=True):
            return Protection.UNVERIFIED
        identity = is_on(query, "ssl_verify_identity", default=is_on(query, "ssl_check_hostname", default=True))
        return Protection.FULL if identity else Protection.ANY_HOST

    @classmethod
    def kind(cls) -> object:
        from connectors.sql.mysql.kind import KIND  # loads the driver

        return KIND
