"""Tokens of Amazon RDS as a server takes them: their signature is computed once more, without a library of AWS."""

from __future__ import annotations

import hashlib
import hmac
import time
from calendar import timegm
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from integration_tests.services.aws_identities import Identity

_SERVICE: Final = "rds-db"


def why_refused(token: str, user: str, server: str, region: str, known: Mapping[str, Identity]) -> str:
    """Return why a token is not a login of this user at this server; empty: it is. `known`: identities by key."""
    parts = urlsplit(f"https://{token}")
    if parts.netloc != server or parts.path != "/":
        return f"it is for {parts.netloc}"
    pairs = dict(pair.partition("=")[::2] for pair in parts.query.split("&"))
    signature = pairs.pop("X-Amz-Signature", "")
    told = {name: unquote(value) for name, value in pairs.items()}
    if (told.get("Action"), told.get("DBUser")) != ("connect", user):
        return "it is for another user, or not to connect"
    key, *scope = told["X-Amz-Credential"].split("/")
    date = told["X-Amz-Date"]
    if key not in known or scope != [date[:8], region, _SERVICE, "aws4_request"]:
        return f"nobody has the key {key}, or not in this region"
    query = "&".join(f"{name}={value}" for name, value in sorted(pairs.items()))
    request = f"GET\n/\n{query}\nhost:{server}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    text = f"AWS4-HMAC-SHA256\n{date}\n{'/'.join(scope)}\n{hashlib.sha256(request.encode()).hexdigest()}"
    secret = f"AWS4{known[key].secret}".encode()
    for word in scope:
        secret = hmac.digest(secret, word.encode(), "sha256")
    if not hmac.compare_digest(hmac.digest(secret, text.encode(), "sha256").hex(), signature):
        return "its signature is wrong"
    signed = timegm(time.strptime(date, "%Y%m%dT%H%M%SZ"))
    return "" if signed - 60 < time.time() < signed + int(told["X-Amz-Expires"]) else "it has expired"
