"""Where MySQL and MariaDB differ in the statements that we send."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_MARIADB_NUMBER: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)-MariaDB", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The server at the other end, by what it says in its greeting (`5.5.5-10.11.2-MariaDB-log`, `9.7.0`)."""

    greeting: str

    @property
    def is_mariadb(self) -> bool:
        """MariaDB, whatever number it shows first."""
        return "mariadb" in self.greeting.lower()

    @property
    def version(self) -> tuple[int, ...]:
        """Three numbers."""
        match = _MARIADB_NUMBER.search(self.greeting) or _NUMBER.search(self.greeting)
        return tuple(int(part) for part in match.groups()) if match else (0, 0, 0)

    @property
    def name(self) -> str:
        """For messages."""
        return f"{'MariaDB' if self.is_mariadb else 'MySQL'} {'.'.join(str(part) for part in self.version)}"

    @property
    def latest_timestamp(self) -> str:
        """The last moment of a TIMESTAMP, in UTC: MariaDB counts its seconds without a sign since 11.5."""
        longer = self.is_mariadb and self.version >= (11, 5)
        return "2106-02-07 06:28:15.999999" if longer else "2038-01-19 03:14:07.999999"

    @property
    def for_share(self) -> str:
        """The end of a SELECT that takes shared locks."""
        return "LOCK IN SHARE MODE" if self.is_mariadb else "FOR SHARE"

    @property
    def recover(self) -> str:
        """XA RECOVER in the form that also survives binary ids (H18)."""
        return "XA RECOVER FORMAT='SQL'" if self.is_mariadb else "XA RECOVER CONVERT XID"
