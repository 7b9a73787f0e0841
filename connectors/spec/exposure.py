"""What of a pipeline is not protected on its way, from the spec alone, in plain words. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from connectors.spec.secrets import Url
from connectors.spec.security import Secured
from connectors.spec.sinks import MySqlEntry, PostgresEntry
from connectors.spec.spec import Spec
from connectors.tls_options import Protection, is_local, of_mysql, of_postgres
from wal.address import ObjectAddress


@dataclass(frozen=True, slots=True)
class Exposure:
    """One connection."""

    of: str  # "source orders", "sink warehouse", "head", "log"
    what: str


def exposures(spec: Spec) -> list[Exposure]:
    """What anybody on the way could read or pose as, in the order of the spec. On this machine nobody is on the way.

    Also what any user of the machine can read in its list of processes.
    """
    found = [Exposure(of, protection.value) for of, protection in _connections(spec) if protection.is_open]
    return found + [
        Exposure("spark", f"{name} has a secret in it: Java options are arguments of a process, which `ps` shows")
        for name, value in spec.spark.conf.items()
        if name.endswith("JavaOptions") and spec.mask(value) != value
    ]


def _connections(spec: Spec) -> Iterator[tuple[str, Protection]]:
    entries = [(f"source {source.name}", source) for source in spec.sources]
    for of, entry in [*entries, *((f"sink {sink.name}", sink) for sink in spec.outputs)]:
        if isinstance(entry, Secured):
            yield of, entry.protection
        elif isinstance(entry, (MySqlEntry, PostgresEntry)):
            yield of, _of_url(entry.url)
    if spec.checkpoint.head is not None:
        yield "head", _of_url(spec.checkpoint.head)
    log = spec.checkpoint.log_at
    if isinstance(log, ObjectAddress) and log.endpoint.startswith("http://"):
        yield "log", Protection.LOCAL if is_local(urlsplit(log.endpoint).hostname) else Protection.NONE


def _of_url(url: Url) -> Protection:
    parts = urlsplit(url.reveal())
    query = dict(parse_qsl(parts.query))
    kind = url.scheme.partition("+")[0]
    if kind in ("mysql", "mariadb"):
        return of_mysql(parts.hostname, query)
    return of_postgres(parts.hostname, query) if kind == "postgresql" else Protection.LOCAL
