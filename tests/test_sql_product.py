"""Managed databases and proxies, by the words that they say of themselves."""

from __future__ import annotations

import pytest

from connectors.sql.mysql.product import product


@pytest.mark.parametrize(
    ("greeting", "variables", "name", "fatal"),
    [
        (
            "9.7.4",
            {"version": "9.7.4", "version_comment": "MySQL Community Server - GPL"},
            "a server of its own",
            False,
        ),
        ("5.5.5-10.11.6-MariaDB", {"version": "10.11.6-MariaDB", "wsrep_on": "OFF"}, "a server of its own", False),
        ("8.0.30-Vitess", {}, "Vitess", True),
        ("8.0.34", {"version": "8.0.34-PlanetScale"}, "PlanetScale", True),
        ("5.7.25-TiDB-v7.1.0", {}, "TiDB", True),
        ("5.7.32", {"version_comment": "SingleStoreDB source distribution"}, "SingleStore", True),
        ("8.0.11 (ProxySQL)", {"version": "8.0.36"}, "ProxySQL", False),
        ("8.0.28", {"version_comment": "Source distribution", "aurora_version": "3.05.2"}, "Amazon Aurora", False),
        ("5.5.5-10.11.6-MariaDB", {"wsrep_on": "ON"}, "a Galera cluster", True),
    ],
)
def test_what_answers(greeting: str, variables: dict[str, str], name: str, fatal: bool) -> None:
    found = product(greeting, variables)
    assert (found.name, found.fatal) == (name, fatal)
    assert bool(found.trouble) == bool(found.remedy) == (name != "a server of its own")
    if fatal:
        assert "commit: upsert" in found.remedy
