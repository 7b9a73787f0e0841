"""What of a pipeline is not protected on its way, from the spec alone, in plain words. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from connectors.api.database import protection_of
from connectors.api.entry import Entry
from connectors.api.masking import mask
from connectors.api.tls import Protection, is_local
from connectors.spec.spec import Spec
from connectors.spec.steps import SqlStep
from wal.address import ObjectAddress


@dataclass(frozen=True, slots=True)
class Exposure:
    """One connection."""

    of: str  # "source orders", "sink warehouse", "head", "log"
    what: str


def exposures(spec: Spec) -> list[Exposure]:
    """What anybody on the way could read or pose as, in the order of the spec. On this machine nobody is on the way.

    Also what any user of the machine can read in its list of processes, and what Spark's pages and event log show.
    """
    found = [Exposure(of, protection.value) for of, protection in _connections(spec) if protection.is_open]
    found += [
        Exposure(f"step {step.name}", "a reference brings a value into its SQL: Spark's pages and event log show it")
        for step in spec.transforms
        if isinstance(step, SqlStep) and _shows_plans(spec) and _has_secret(step.sql, spec)
    ]
    return found + [
        Exposure("spark", f"{name} has a secret in it: Java options are arguments of a process, which `ps` shows")
        for name, value in spec.spark.conf.items()
        if name.endswith("JavaOptions") and spec.mask(value) != value
    ]


def _shows_plans(spec: Spec) -> bool:
    """Whether Spark shows its plans, with the constants in them, to others than the spec's user."""
    conf = spec.spark.conf
    return any(conf.get(f"spark.{name}.enabled", "false").lower() == "true" for name in ("ui", "eventLog"))


def _has_secret(text: str, spec: Spec) -> bool:
    """Whether a value that a reference brings is in the text: not what only looks like one, such as `token=x`."""
    return mask(text, spec.secrets) != mask(text, frozenset())


def _connections(spec: Spec) -> Iterator[tuple[str, Protection]]:
    entries: list[tuple[str, Entry]] = [(f"source {source.name}", source) for source in spec.sources]
    entries += [(f"sink {sink.name}", sink) for sink in spec.outputs]
    for of, entry in entries:
        if entry.protection is not None:
            yield of, entry.protection
    if spec.checkpoint.head is not None:
        yield "head", protection_of(spec.checkpoint.head.reveal())
    log = spec.checkpoint.log_at
    if isinstance(log, ObjectAddress) and log.endpoint.startswith("http://"):
        yield "log", Protection.LOCAL if is_local(urlsplit(log.endpoint).hostname) else Protection.NONE
