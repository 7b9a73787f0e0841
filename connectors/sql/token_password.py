"""Passwords that are tokens: a fresh one for each connection, by the login that the URL names."""

from __future__ import annotations

from connectors.api.login import LoginOptionsError, TokenLogin, token_login
from connectors.aws import rds_token
from eos.errors import SpecError


def login_of(url: str) -> TokenLogin | None:
    """Return who logs in by a token; None: the URL's own password counts. Raises SpecError."""
    try:
        return token_login(url)
    except LoginOptionsError as error:
        raise SpecError(f"the url: {error.message}", remedy=f"write {error.remedy}") from None


def fresh_password(login: TokenLogin) -> str:
    """Return a token, which the server takes for the next 15 minutes. Raises AwsLoginError, SpecError."""
    return rds_token(login.identity, login.host, login.port, login.user)
