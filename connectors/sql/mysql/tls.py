"""TLS options of a URL of MySQL or MariaDB. Imports no driver."""

from __future__ import annotations

from typing import Final

from connectors.api.tls import Protection, Query, is_on, stays

MYSQL_FILES: Final = ("ssl_ca", "ssl_capath", "ssl_cert", "ssl_key")
"""Options of a URL that name a file, which is read wherever the client runs."""


def of_mysql(host: str | None, query: Query) -> Protection:
    """Of a URL of MySQL or MariaDB: verified, host name included, unless it says otherwise in so many words."""
    wanted = is_on(query, "ssl", default=not stays(host, query))
    if is_on(query, "ssl_disabled", default=False):
        return Protection.NONE
    if not wanted and not any(name in query for name in MYSQL_FILES):
        return Protection.NONE if "ssl" in query else Protection.LOCAL
    if not is_on(query, "ssl_verify_cert", default=True):
        return Protection.UNVERIFIED
    identity = is_on(query, "ssl_verify_identity", default=is_on(query, "ssl_check_hostname", default=True))
    return Protection.FULL if identity else Protection.ANY_HOST
