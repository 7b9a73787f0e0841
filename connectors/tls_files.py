"""Options of clients that name a file of certificates or keys: read wherever the client runs."""

from __future__ import annotations

from typing import Final

KAFKA: Final = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location")
"""Settings of librdkafka."""

MYSQL: Final = ("ssl_ca", "ssl_capath", "ssl_cert", "ssl_key")
"""Options of a URL."""

POSTGRES: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
"""Options of a URL, as libpq calls them."""

NO_FILES: Final = ("probe", "system")
"""What may stand in the place of a path."""
