"""Protection of Spark's own traffic: who may use its ports, and who may read what passes between machines.

Spark's ports give a task's spec, with its secrets, to any process that connects, and pass that process's bytes to
Java's deserialization, unless `spark.authenticate` is on. Imports no Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from connectors.api.contracts import Finding
from connectors.spec import Spec
from connectors.spec.settings import SparkSettings
from eos.errors import SpecError
from spark_jobs.session.master import is_local, is_loopback
from spark_jobs.session.properties import spark_defaults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AUTHENTICATE: Final = "spark.authenticate"
_SECRET: Final = "spark.authenticate.secret"
_CRYPTO: Final = "spark.network.crypto.enabled"
_TLS: Final = "spark.ssl.rpc.enabled"
SPARKS_OWN: Final = {_AUTHENTICATE: "false"}
"""Spark's default, of which a pipeline's session on a local master has the opposite."""
_LOCAL: Final = {_AUTHENTICATE: "true", _CRYPTO: "true", "spark.network.crypto.saslFallback": "false"}
_GENERATING: Final = ("yarn", "k8s://")
"""Clusters for which Spark generates the secret, and distributes it to its executors."""


@dataclass(frozen=True, slots=True)
class Gap:
    """One protection that is missing. No pipeline starts, unless the spec's `spark` has the key `accepted_by`."""

    what: str
    remedy: str
    accepted_by: str | None

    def is_accepted(self, settings: SparkSettings) -> bool:
        """Return whether the spec accepts it."""
        return self.accepted_by is not None and bool(getattr(settings, self.accepted_by))


def local_protection(master: str, conf: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings that close Spark's ports of a local master to others, unless `conf` has it otherwise.

    Spark generates the secret at each start, and only the driver's JVM has it.
    """
    off = not _is_on({_AUTHENTICATE: "true", **conf}, _AUTHENTICATE)  # Spark refuses to encrypt then
    return {} if off or not is_local(master) else _LOCAL


def gaps(master: str, conf: Mapping[str, str]) -> Iterator[Gap]:
    """Yield the missing protections of Spark with this master and these settings. Pure."""
    conf = {**local_protection(master, conf), **conf}
    authenticated = _is_on(conf, _AUTHENTICATE)
    if not authenticated:
        what = f"{_AUTHENTICATE} is off: any process that reaches Spark's ports can read rows and the spec's secrets, "
        what += "and may run code as this user"
        secret = "" if _generates(master) else f" and {_SECRET}"
        where = "spark.conf" if _generates(master) else "spark.conf, and for the cluster's master and workers"
        remedy = f"set {_AUTHENTICATE}: true{secret} in {where}, or accept it: spark.allow_unauthenticated: true"
        yield Gap(what, remedy, "allow_unauthenticated")
    elif not _generates(master) and not conf.get(_SECRET):
        what = f"{_AUTHENTICATE} is on, and there is no {_SECRET}, which Spark needs on {master}"
        yield Gap(what, f"set {_SECRET} in spark.conf, best as ${{file:…}}, to the cluster's own", accepted_by=None)
    if not is_loopback(master) and not _is_on(conf, _TLS) and not (authenticated and _is_on(conf, _CRYPTO)):
        what = f"Spark's traffic is not encrypted: who reads the network of {master} reads rows, state and the "
        what += "spec's secrets"
        remedy = f"set {_AUTHENTICATE} and {_CRYPTO}, or {_TLS}, in spark.conf and for the cluster's master and "
        yield Gap(what, remedy + "workers, or accept it: spark.allow_unencrypted: true", "allow_unencrypted")


def gaps_of(spec: Spec, environ: Mapping[str, str]) -> list[Gap]:
    """Return the gaps of a start by `eos run`, which also takes the settings of spark-defaults.conf."""
    defaults = {} if is_local(spec.spark.master) else spark_defaults(environ)
    return list(gaps(spec.spark.master, {**defaults, **spec.spark.conf}))


def session_gaps(session: SparkSession) -> list[Gap]:
    """Return the missing protections of a session that runs: of a job of the user's own, which has configured it."""
    from spark_jobs.session.connect import settings_of  # imports Spark

    conf = settings_of(session)
    return list(gaps(conf.get("spark.master", ""), {**SPARKS_OWN, **conf}))


def findings(spec: Spec, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the gaps as findings of `eos doctor`, fatal unless the spec accepts them."""
    found = gaps_of(spec, environ)
    for gap in found:
        yield Finding("Spark's traffic", False, gap.what, gap.remedy, fatal=not gap.is_accepted(spec.spark))
    if not found:
        where = "on this machine only" if is_loopback(spec.spark.master) else "authenticated and encrypted"
        yield Finding("Spark's traffic", True, where)


def require(found: Iterable[Gap], settings: SparkSettings) -> None:
    """Raise SpecError if the spec does not accept one of these gaps."""
    refused = [gap for gap in found if not gap.is_accepted(settings)]
    if refused:
        message = "Spark is not protected: " + "; ".join(gap.what for gap in refused)
        raise SpecError(message, remedy="; ".join(gap.remedy for gap in refused) + " (docs/how-to/security.md)")


def _is_on(conf: Mapping[str, str], key: str) -> bool:
    return conf.get(key, "false").strip().lower() == "true"


def _generates(master: str) -> bool:
    return is_local(master) or master.startswith(_GENERATING)
