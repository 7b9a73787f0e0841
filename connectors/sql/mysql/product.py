"""Which product answers, where it is not the plain server: managed databases and proxies, and what they cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

NO_XA: Final = (
    "give the address of a MySQL or MariaDB server itself; `commit: write-ahead-log` and `commit: upsert` need no XA"
)


@dataclass(frozen=True, slots=True)
class Product:
    """Something that speaks MySQL's protocol."""

    name: str
    trouble: str = ""  # with `commit: two-phase`; empty: none is known
    remedy: str = ""
    fatal: bool = False
    with_log: str = ""  # trouble with a log, where it is another one; its remedy is `log_remedy`
    log_remedy: str = ""


def product(greeting: str, variables: Mapping[str, str]) -> Product:
    """What answers, by the words it says of itself. Pure.

    Args:
        greeting: the version of the handshake, which a proxy writes itself.
        variables: system variables by name, as far as there are any: `version`, `version_comment`, `aurora_version`,
            `wsrep_on`.
    """
    words = " ".join((greeting, variables.get("version", ""), variables.get("version_comment", ""))).lower()
    for mark, found in _BY_WORD.items():
        if mark in words:
            return found
    if variables.get("aurora_version"):
        return _AURORA
    if variables.get("wsrep_on", "OFF").upper() == "ON":
        return _GALERA
    return _NONE


def _without_xa(name: str, trouble: str = "it has no XA", remedy: str = NO_XA, *, fatal: bool = True) -> Product:
    """Return a server of another make, on which no test of this framework runs."""
    untested = f"no test of this framework runs on {name}"
    return Product(
        name,
        trouble,
        f"{remedy}; {untested}",
        fatal,
        with_log=untested,
        log_remedy="try the pipeline there, with crashes of its driver, before you rely on it",
    )


_NONE: Final = Product("a server of its own")
_AURORA: Final = Product(
    "Amazon Aurora",
    "Amazon advises against XA there: what is prepared makes its recovery and fail-over slow",
    "keep checkpoints small (max_records_per_checkpoint), or write to a MySQL or MariaDB server",
)
_ONE_NODE: Final = "give the address of one node, for all connections of the pipeline"
_GALERA: Final = Product(
    "a Galera cluster",
    "it does not replicate prepared transactions",
    f"{NO_XA}; with these, {_ONE_NODE}",
    fatal=True,
    with_log="row locks, which keep an older driver out, hold on one node only; no test of this framework runs there",
    log_remedy=_ONE_NODE,
)
_TIDB: Final = (
    "give the address of a MySQL or MariaDB server itself; `commit: write-ahead-log` needs no XA; `commit: upsert` "
    "needs CREATE TEMPORARY TABLE … SELECT, which TiDB does not have"
)
_SINGLESTORE: Final = Product(
    "SingleStore",
    "it has no XA, and no InnoDB tables, which every `commit` needs",
    "give the address of a MySQL or MariaDB server itself",
    fatal=True,
    with_log="it has no InnoDB tables, which every `commit` needs",
    log_remedy="give the address of a MySQL or MariaDB server itself",
)
_PROXYSQL: Final = "it may send the statements of one transaction to several servers"
_MAXSCALE: Final = "its router may send the statements of one transaction to several servers"
_NOT_THROUGH_PROXYSQL: Final = (
    "give the server's own address, or have ProxySQL send this user to one hostgroup with transaction_persistent=1 "
    "and without multiplexing"
)
_NOT_THROUGH_MAXSCALE: Final = "give the server's own address, or use the router readconnroute with master"
_BY_WORD: Final = {
    "proxysql": Product(
        "ProxySQL", _PROXYSQL, _NOT_THROUGH_PROXYSQL, with_log=_PROXYSQL, log_remedy=_NOT_THROUGH_PROXYSQL
    ),
    "maxscale": Product(
        "MaxScale", _MAXSCALE, _NOT_THROUGH_MAXSCALE, with_log=_MAXSCALE, log_remedy=_NOT_THROUGH_MAXSCALE
    ),
    "vitess": _without_xa("Vitess"),
    "planetscale": _without_xa("PlanetScale"),
    "tidb": _without_xa("TiDB", remedy=_TIDB),
    "singlestore": _SINGLESTORE,
    "oceanbase": _without_xa("OceanBase", "its XA is not the server's that this framework is tested on", fatal=False),
}
