"""URLs of databases: a character that ends the password is one clear mistake, and no message quotes the password."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.api.url_form import ESCAPES, has_unescaped, mistake_in
from connectors.spec import SpecMistakesError, load_spec
from connectors.sql.kind import kind_of
from tests.connectors.spec.test_mistakes import GOOD

_SERVERS = ("mysql+pymysql", "postgresql+psycopg")
_MARKS = ("/", "#", "?", "@", "[", "]", "[x]", "/a@b", "#a?b@c", "@/?#[]")


@pytest.mark.parametrize("server", _SERVERS)
@pytest.mark.parametrize(
    ("before", "mark"),
    [
        *(("gehei", mark) for mark in (*_MARKS, "?a=b")),  # behind digits: a host, its port, and an option
        *(("17", mark) for mark in _MARKS),
    ],
)
def test_a_password_that_is_not_escaped_is_one_mistake_that_shows_none_of_it(
    server: str, before: str, mark: str, tmp_path: Path
) -> None:
    password = f"{before}{mark}mnis"
    spec = GOOD.replace("mysql+pymysql://user@host/shop", f'"{server}://eos:{password}@db:3306/shop"')
    spec = spec.replace("connector: mysql", f"connector: {server.partition('+')[0]}")
    for reference, environ in ((spec, {}), _by_environment(spec)):
        path = tmp_path / "spec.yaml"
        path.write_text(reference)
        with pytest.raises(SpecMistakesError) as caught:
            load_spec(path, environ)
        (mistake,) = caught.value.mistakes
        assert mistake.path == "sinks[0].url"
        assert ESCAPES in mistake.allowed[0]
        shown = caught.value.message.replace(str(tmp_path), "")
        assert before not in shown
        assert "mnis" not in shown


def _by_environment(spec: str) -> tuple[str, dict[str, str]]:
    url = spec.partition('url: "')[2].partition('"\n')[0]
    return spec.replace(f'"{url}"', "${env:DATABASE}"), {"DATABASE": url}


@pytest.mark.parametrize(
    "url",
    [
        "mysql+pymysql://eos@db/shop",
        "mysql+pymysql://eos:a%2Fb%40c@db:3306/shop?ssl_ca=/etc/a@b/ca.pem",
        "mysql+pymysql://db/shop?user=eos&ssl_ca=/a@b/ca.pem",
        "mysql+pymysql://eos:a:b%25@[::1]:3306/shop",
        "mysql+pymysql://[::1]/shop",
        "postgresql+psycopg:///shop?host=/run/a@b&user=me@corp",
        "postgresql+psycopg://db?user=me@corp",
        "sqlite:////data/a@b/x@y.db",
    ],
)
def test_a_url_whose_password_is_escaped_is_taken(url: str) -> None:
    assert not has_unescaped(url)
    assert mistake_in(url) == ""
    assert kind_of(url)


@pytest.mark.parametrize(
    ("url", "mistake"),
    [
        ("mysql+pymysql://eos:geheim@db:port/shop", "the port of the URL is not a number"),
        ("mysql+pymysql://eos:geheim@db:99999/shop", "the port of the URL is not a number"),
        ("mysql+pymysql://eos:geheim@[db]:3306/shop", "the host of the URL is not a name or an address"),
        ("mysql+pymysql://eos:geheim@[::1/shop", "the host of the URL is not a name or an address"),
    ],
)
def test_a_wrong_server_is_named_and_not_quoted(url: str, mistake: str) -> None:
    assert not has_unescaped(url)
    assert mistake_in(url).startswith(mistake)
