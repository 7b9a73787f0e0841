"""Which product answers, where it is not the plain server: managed databases and proxies, and what they cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

NO_XA: Final = (
    "`commit: two-phase` needs XA: give the address of a MySQL or MariaDB server itself; a keyed merge without XA "
    "(`commit: upsert`) is the variant for such a database, and is not built yet"
)


@dataclass(frozen=True, slots=True)
class Product:
    """Something that speaks MySQL's protocol."""

    name: str
    trouble: str  # empty: none is known
    remedy: str = ""
    fatal: bool = False


_NONE: Final = Product("a server of its own", "")


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


_AURORA: Final = Product(
    "Amazon Aurora",
    "Amazon advises against XA there: what is prepared makes its recovery and fail-over slow",
    "keep checkpoints small (max_records_per_checkpoint), or write to a MySQL or MariaDB server",
)
_GALERA: Final = Product("a Galera cluster", "it does not replicate prepared transactions", NO_XA, fatal=True)
_BY_WORD: Final = {
    "proxysql": Product(
        "ProxySQL",
        "it may send the statements of one transaction to several servers",
        "give the server's own address, or have ProxySQL send this user to one hostgroup with transaction_persistent=1 "
        "and without multiplexing",
    ),
    "maxscale": Product(
        "MaxScale",
        "its router may send the statements of one transaction to several servers",
        "give the server's own address, or use the router readconnroute with master",
    ),
    "vitess": Product("Vitess", "it has no XA", NO_XA, fatal=True),
    "planetscale": Product("PlanetScale", "it has no XA", NO_XA, fatal=True),
    "tidb": Product("TiDB", "it has no XA", NO_XA, fatal=True),
    "singlestore": Product("SingleStore", "it has no XA", NO_XA, fatal=True),
    "oceanbase": Product("OceanBase", "its XA is not the server's that this framework is tested on", NO_XA),
}
