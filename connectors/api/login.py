"""What the URL of a database says about logins by a token: the token takes the password's place. Imports no client."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from connectors.api.database import database_of, kind_name
from connectors.api.plugins import PluginError
from connectors.api.tls import Protection
from connectors.aws import AwsIdentity

OPTIONS: Final = ("login", "aws_region", "aws_profile")
"""Ours, which no driver knows."""

_AWS: Final = "aws-iam"
_RDS_HOST: Final = re.compile(r"\.([a-z0-9-]+)\.rds\.amazonaws\.com(\.cn)?$")


class LoginOptionsError(ValueError):
    """A URL whose options of a login do not go together. Repeats nothing of the URL that is secret."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """Whose token is the password, and for which server and user it is signed."""

    identity: AwsIdentity
    host: str
    port: int
    user: str


def extras_of(url: str) -> frozenset[str]:
    """Return the extras of `eos-spark` that a login by this URL needs."""
    return frozenset({"aws"} if _query(urlsplit(url)).get("login") == _AWS else ())


def token_login(url: str) -> TokenLogin | None:
    """Return who logs in by a token; None where the URL names no such login. Raises LoginOptionsError."""
    parts = urlsplit(url)
    query = _query(parts)
    others = [name for name in OPTIONS[1:] if name in query]
    if "login" not in query:
        if others:
            raise LoginOptionsError(f"{others[0]} without login", f"login={_AWS}")
        return None
    try:
        database = database_of(url)
    except PluginError as error:
        raise LoginOptionsError(error.message, error.remedy) from None
    if query["login"] != _AWS or not database.verified_by:
        what = query["login"] if database.verified_by else f"login of a {kind_name(parts.scheme)} URL"
        raise LoginOptionsError(f"'{what}' is not a login by a token", f"login={_AWS}")
    if parts.password is not None:
        raise LoginOptionsError("a password beside login, whose token is the password", "one of the two")
    if not parts.username or not parts.hostname or {"host", "hostaddr", "service"} & query.keys():
        example = f"{parts.scheme}://user@host/database?login={_AWS}&aws_region=eu-west-1"
        raise LoginOptionsError("a token is for one user of one host, which stand in the URL itself", example)
    region = query.get("aws_region")
    if region is None:
        raise LoginOptionsError(f"login={_AWS} without aws_region", "aws_region=eu-west-1")
    found = _RDS_HOST.search(parts.hostname)
    if found and found[1] != region:
        raise LoginOptionsError(f"aws_region={region} for a server in {found[1]}", f"aws_region={found[1]}")
    protection = database.protection(parts.hostname, query)
    if protection is not Protection.FULL:
        needed = f"{database.verified_by}=…"
        raise LoginOptionsError(f"login={_AWS} sends the token to a server that TLS does not verify", needed)
    identity = AwsIdentity(region, query.get("aws_profile"))
    return TokenLogin(identity, parts.hostname, parts.port or database.port, unquote(parts.username))


def _query(parts: SplitResult) -> dict[str, str]:
    return dict(parse_qsl(parts.query, keep_blank_values=True))
