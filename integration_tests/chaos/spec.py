"""The spec of a round's pipeline, as its setup has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from integration_tests.chaos.plan import Setup
from integration_tests.cluster.pipeline import cluster_conf
from integration_tests.cluster.standalone import Cluster
from tests.object_store import KEYS, Bucket

TABLE: Final = "records"

_BACKLOG: Final = {"checkpoints": 50, "bytes": "256MiB"}
"""More than a fault lasts: a sink that is away holds up nobody."""

_MOST_RECORDS: Final = 100_000  # of a checkpoint


@dataclass(frozen=True, slots=True)
class Topics:
    """Of one round."""

    incoming: str
    written: str
    letters: str


def pipeline_spec(
    setup: Setup, topics: Topics, brokers: str, urls: Mapping[str, str], bucket: Bucket | None
) -> dict[str, Any]:
    """Return the spec without Spark's settings. `urls`: by kind of database; `bucket`: of the log, if it has one."""
    source: dict[str, Any] = {
        "name": "incoming",
        "connector": "kafka",
        "bootstrap_servers": brokers,
        "topics": [topics.incoming],
        "format": {"type": "json", "schema": "id BIGINT, k BIGINT, n BIGINT"},
    }
    checkpoint: dict[str, Any] = {
        "location": "./checkpoints",
        "interval": "500ms",
        "timeout": "60s",
        "max_records_per_checkpoint": _MOST_RECORDS,
        "mode": setup.mode,
    }
    if bucket is not None:
        options = {"endpoint": f"http://127.0.0.1:{bucket.port}", "allow_http": True, "region": "us-east-1", **KEYS}
        checkpoint |= {"log": str(bucket.address()), "log_options": options}
    spec: dict[str, Any] = {
        "pipeline": topics.incoming,
        "checkpoint": checkpoint,
        "restart": {"strategy": "exponential-delay", "initial_delay": "200ms", "max_delay": "2s"},
        "sources": [source],
        "transforms": [{"name": "chained", "from": "incoming", "python": "chain:chained"}],
        "sinks": [
            *(_table(kind, url, setup) for kind, url in urls.items()),
            {
                "name": "written",
                "from": "chained",
                "connector": "kafka",
                "bootstrap_servers": brokers,
                "topic": topics.written,
                "key": ["k"],
                **_log(setup),
            },
        ],
    }
    if setup.has_dead_letters:
        checkpoint["max_dead_letters"] = _MOST_RECORDS  # a full checkpoint after a long fault has more than by default
        spec["dead_letter"] = {
            "connector": "kafka",
            "bootstrap_servers": brokers,
            "topic": topics.letters,
            "commit": "write-ahead-log",
        }
    return spec


def spark_settings(cluster: Cluster, own_time: Mapping[str, str]) -> dict[str, Any]:
    """Return those of the spec. `own_time`: an environment that executors need as well; the driver's is not theirs."""
    environment = {f"spark.executorEnv.{name}": value for name, value in own_time.items()}
    return {"master": cluster.master, "conf": {**cluster_conf(cluster), **environment, "spark.cores.max": "2"}}


def _table(kind: str, url: str, setup: Setup) -> dict[str, Any]:
    sink = {
        "name": kind,
        "from": "chained",
        "connector": kind,
        "url": url,
        "table": TABLE,
        "create": "if-missing",
        "evolve": "add-columns",
    }
    match setup.commits[kind]:
        case "two-phase":
            return {**sink, "commit": "two-phase", **_backlog(setup)}
        case "upsert":
            return {**sink, **_log(setup), "commit": "upsert", "key": ["k"]}
        case _:
            return {**sink, **_log(setup)}


def _log(setup: Setup) -> dict[str, Any]:
    backlog = {"max_backlog": _BACKLOG} if setup.has_backlog else _backlog(setup)
    return {"commit": "write-ahead-log", **backlog}


def _backlog(setup: Setup) -> dict[str, Any]:
    return {"max_backlog": {"checkpoints": setup.waiting}} if setup.waiting else {}
