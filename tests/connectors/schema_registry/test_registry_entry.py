"""The entry `registry` of a spec."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from connectors.schema_registry.entry import RegistryEntry

_SECRET = "8fK2-secret"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"url": "registry.example:8081"}, "not a URL of a registry"),
        ({"url": "mock://registry"}, "not a URL of a registry"),
        ({"url": "https://[registry"}, "not a URL of a registry"),
        ({"url": "https://registry.example, ftp://registry.example"}, "not a URL of a registry"),
        ({"url": f"https://orders:{_SECRET}@registry.example"}, "the URL has a user or a password"),
        ({"url": f"https://orders:/{_SECRET}@registry.example"}, "the URL has a user or a password"),
        ({"url": f"https://orders:1/{_SECRET}@registry.example:8081/path"}, "the URL has a user or a password"),
        ({"url": f"https://registry.example,https://b:/{_SECRET}@c"}, "the URL has a user or a password"),
        ({"url": f"https://registry.example/?key={_SECRET}"}, "the URL has a query or a fragment"),
        ({"username": "orders"}, "username without password"),
        ({"password": _SECRET}, "password without username"),
        ({"token": _SECRET, "username": "orders", "password": _SECRET}, "a token and a username"),
        ({"username": "a:b", "password": _SECRET}, "a user with a colon"),
        ({"token": f"{_SECRET}\n"}, "a character that HTTP cannot send"),
        ({"username": "a", "password": f"{_SECRET}\0"}, "a character that HTTP cannot send"),
        ({"url": "http://registry.example", "token": _SECRET}, "over http, in plain text"),
        ({"url": "http://10.1.2.3", "username": "orders", "password": _SECRET}, "over http, in plain text"),
        ({"url": "https://a.example,http://b.example", "token": _SECRET}, "over http, in plain text"),
    ],
)
def test_a_wrong_entry_is_refused_without_its_secret(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason) as refused:
        RegistryEntry(**{"url": "https://registry.example", **given})
    assert all(_SECRET not in each["msg"] for each in refused.value.errors(include_input=False))


@pytest.mark.parametrize("url", ["http://127.0.0.1:8081", "http://localhost:8081", "https://registry.example"])
def test_a_secret_goes_over_tls_or_within_the_machine(url: str) -> None:
    connection = RegistryEntry(url=url, username="orders", password=_SECRET).connection()
    assert (connection.username, connection.password) == ("orders", _SECRET)
    assert _SECRET not in repr(connection)
