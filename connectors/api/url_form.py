"""The form of a database's URL: it is refused before a parser reads a piece of the password as a port or a host.

`urllib` and SQLAlchemy end user name and password at different characters. Invariant: no message here quotes the URL.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

ESCAPES: Final = "in user name and password, write / ? # @ [ ] as %2F %3F %23 %40 %5B %5D"

_AUTHORITY: Final = re.compile(r"[^/?#]*")


def has_unescaped(url: str) -> bool:
    """Return whether the user name or the password seems to contain one of `/ ? # @ [ ]`.

    The path of a URL without a server may contain an @, and so may the value of an option.
    """
    rest = url.partition("://")[2]
    found = _AUTHORITY.match(rest)
    authority = found[0] if found else ""
    if not authority:
        return False
    path, _, query = rest[len(authority) :].partition("?")
    user, at, _ = authority.rpartition("@")
    if any(each in user for each in "@[]") or "@" in path:
        return True
    if any("@" in each and "=" not in each.partition("@")[0] for each in re.split("[&#]", query)):
        return True
    return not at and "@" in query and not _is_port(authority)


def mistake_in(url: str) -> str:
    """Return what is wrong with the server of a URL whose user name and password are escaped, or an empty text."""
    try:
        parts = urlsplit(url)
        _ = parts.hostname
    except ValueError:  # its text quotes the URL
        return "the host of the URL is not a name or an address; an address of IPv6 is written in brackets"
    try:
        _ = parts.port
    except ValueError:
        return "the port of the URL is not a number from 0 to 65535"
    return ""


def _is_port(authority: str) -> bool:
    """Return whether the text behind the last colon may be a port, or there is none."""
    port = authority.rpartition(":")[2] if ":" in authority else ""
    return port == "" or port.isdecimal() or "]" in port
