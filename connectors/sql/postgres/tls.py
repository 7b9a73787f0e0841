"""TLS options of a URL of PostgreSQL. Imports no driver."""

from __future__ import annotations

from typing import Final

from connectors.api.tls import Protection, Query, stays

POSTGRES_FILES: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
"""Options of a URL that name a file, as libpq calls them."""


def of_postgres(host: str | None, query: Query) -> Protection:
    """Of a URL of PostgreSQL: as its `sslmode` says; without one verified, unless it is on this machine."""
    modes = {"verify-full": Protection.FULL, "verify-ca": Protection.ANY_HOST, "require": Protection.UNVERIFIED}
    if "sslmode" in query:
        return modes.get(str(query["sslmode"]), Protection.NONE)
    asked = any(name in query for name in POSTGRES_FILES)
    return Protection.FULL if asked or not stays(host, query) else Protection.LOCAL
